"""Parts of every job that copies records: clusters, batches and reading."""
