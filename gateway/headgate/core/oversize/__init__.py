"""What becomes of a value that is too large for its topic."""
