"""Interfaces of Kafka and Redis for the path of an event, and helpers of their owners."""
