"""Request identity on this side: Idempotency-Keys and event ids, claimed before an attempt and
ended after it. The rules are `core.identity`'s; here is who asks, who waits, and what happens
while Redis is away.
"""
