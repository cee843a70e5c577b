"""Idempotency-Keys and event ids: claims before an attempt, and ends after it.

`identity` makes the claims of requests and of events by the rules in `rules`; `client` and `claims`
carry them to Redis, and go on without it (docs/design/request-identity.md).
"""
