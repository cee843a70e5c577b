"""Replays and the offset map."""
