"""The common parts of all jobs: command line, options, progress and end."""
