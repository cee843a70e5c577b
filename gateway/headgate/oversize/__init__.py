"""Handling of events that are too large for their topic (docs/publish/oversize.md)."""
