"""Starts real local Kafka brokers and Redis as children, for `headgate dev` and the tests."""
