"""Idempotency-Keys and event ids: claims before an attempt, and ends after it.

The rules are those of `core.idempotency`. This package has the claims, the waiting requests and the
behaviour while Redis is away (docs/design/request-identity.md).
"""
