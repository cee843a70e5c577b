"""Redis: one connection, one script; suppression and idempotency on top."""
