"""Topics: their options, their state in Kafka, and their active rules."""
