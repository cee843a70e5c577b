"""The skew audit: what makes a topic's partitions unequal, and what would help."""
