"""Suppression of republished content: reserve before, settle after (8-suppression-model)."""

from headgate.suppression.options import SuppressionMeter, SuppressOptions
from headgate.suppression.suppressor import Suppressor

__all__ = ["SuppressOptions", "SuppressionMeter", "Suppressor"]
