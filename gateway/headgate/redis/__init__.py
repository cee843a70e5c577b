"""Redis: connections with scripts, for suppression and idempotency, and stored pauses."""
