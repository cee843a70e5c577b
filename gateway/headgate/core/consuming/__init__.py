"""What a consumer commits, owns and pauses."""
