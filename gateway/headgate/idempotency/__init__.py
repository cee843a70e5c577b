"""Idempotency-Keys and event ids: claims before an attempt, and ends after it.

The rules are in `rules`, the claims, the waiting requests and the behaviour without Redis in the
other modules (docs/design/request-identity.md).
"""
