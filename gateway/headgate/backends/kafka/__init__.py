"""Kafka backend: topics, groups, logs and their metadata."""
