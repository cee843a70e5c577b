"""Shared types and pure functions at the bottom of the gateway: events, outcomes, topics."""
