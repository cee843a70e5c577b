"""The Spark session, and what Spark reads from Kafka."""
