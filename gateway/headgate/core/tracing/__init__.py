"""What tracing decides: which requests are sampled, and what becomes a span."""
