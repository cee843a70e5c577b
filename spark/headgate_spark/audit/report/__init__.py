"""The result as files: for people, for machines, for Prometheus."""
