"""A topic as events meet it: its options, its state in Kafka, its rules in force."""
