"""Interfaces of Kafka and Redis for the path of an event, and what their owners share."""
