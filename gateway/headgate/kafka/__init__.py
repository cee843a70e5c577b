"""What the gateway and the Spark jobs need of Kafka alike: its wire format, clients of aiokafka."""
