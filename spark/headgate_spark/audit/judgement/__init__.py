"""What the figures of a topic mean, and what would help: free of Spark."""
