"""The skew audit: the causes of unequal partitions, and their remedies."""
