"""Idempotency-Keys and event ids, claimed before an attempt and ended after it.

The rules are those of `core.idempotency`. Here is who asks, who waits, and what happens while
Redis is away (docs/design/request-identity.md).
"""
