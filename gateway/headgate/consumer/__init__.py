"""The library for consumers: ownership of partitions."""
