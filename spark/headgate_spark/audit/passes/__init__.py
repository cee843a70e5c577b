"""The passes over the facts: from Kafka to figures, in Spark."""
