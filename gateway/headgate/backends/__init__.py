"""Touches the world: Kafka, Redis, blobs, and doubles of them in memory."""
