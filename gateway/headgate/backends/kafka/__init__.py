"""Kafka: topics, groups, logs and their metadata."""
