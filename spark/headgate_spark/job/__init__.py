"""Parts of every job: its command line, its options, its progress, its end."""
