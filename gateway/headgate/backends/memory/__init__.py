"""The same behaviour in memory: for tests, and for a gateway without Redis."""
