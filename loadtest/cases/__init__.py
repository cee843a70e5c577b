"""The measured cases: what is run against what, and the goals."""
