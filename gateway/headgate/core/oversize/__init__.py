"""Handling of values that are too large for their topics."""
