"""Replays and the offset map on the gateway's side."""
