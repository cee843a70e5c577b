"""Headgate: an async HTTP gateway in front of Apache Kafka with producer hygiene."""

__version__ = "0.1.0"
