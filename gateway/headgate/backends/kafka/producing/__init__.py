"""The way into Kafka: lanes, batches and producers."""
