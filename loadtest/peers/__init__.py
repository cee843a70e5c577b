"""Others that publish to Kafka over HTTP, in the same runs as the gateway."""
