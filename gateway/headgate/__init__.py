"""Headgate: an HTTP gateway for Apache Kafka that drops unchanged events and measures producers."""

__version__ = "0.1.0"
