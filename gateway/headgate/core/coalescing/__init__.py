"""Coalescing: windows, held records, done marks."""
