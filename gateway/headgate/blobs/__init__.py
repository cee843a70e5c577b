"""Stores of claim checks and uploads: a folder or an object store, and their garbage collector."""
