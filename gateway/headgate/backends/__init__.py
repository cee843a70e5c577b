"""Access to external systems: Kafka, Redis and blobs, and replacements in memory."""
