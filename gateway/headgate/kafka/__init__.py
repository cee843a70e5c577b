"""Kafka: lanes and their producer, topics, groups, logs, the wire format, aiokafka's inside."""
