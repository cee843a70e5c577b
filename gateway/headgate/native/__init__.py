"""What is written in C, with its twins in Python (`setup.py` says when it is built)."""
