"""Idempotency-Keys and event ids: the protocol's rules."""
