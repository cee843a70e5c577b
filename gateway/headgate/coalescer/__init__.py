"""The coalescer: owns partitions of held topics and publishes what is left of each key's burst."""
