"""Suppression of republished content: reserve before, settle after.

docs/design/suppression-protocol.md has the protocol.
"""

from headgate.suppression.options import SuppressOptions
from headgate.suppression.suppressor import Suppressor

__all__ = ["SuppressOptions", "Suppressor"]
