"""Streaming sketches in fixed memory that can be merged: different keys, heavy keys, sizes."""
