"""The way of a request's events, from bytes to outcomes."""
