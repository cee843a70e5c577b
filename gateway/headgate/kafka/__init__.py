"""Kafka's wire format and aiokafka's clients, shared by the gateway and the Spark jobs."""
