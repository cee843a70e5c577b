"""Extensions in C, each with a twin in Python (`setup.py` decides when they are built)."""
