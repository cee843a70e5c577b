"""What every job has: its options, its progress, its end."""
