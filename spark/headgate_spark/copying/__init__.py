"""The common parts of jobs that copy records: clusters, batches and reading."""
