"""aiokafka as the jobs use it, and what they ask of a cluster."""
