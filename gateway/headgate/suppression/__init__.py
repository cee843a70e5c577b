"""Suppression of republished content: reserve before, settle after (suppression-protocol)."""

from headgate.suppression.options import SuppressionMeter, SuppressOptions
from headgate.suppression.suppressor import Suppressor

__all__ = ["SuppressOptions", "SuppressionMeter", "Suppressor"]
