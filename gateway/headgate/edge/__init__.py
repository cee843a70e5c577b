"""HTTP: who asks, what a body is, and how answers look on the wire."""
