"""The coalescer: it owns partitions of held topics and publishes the rest of each key's burst."""
