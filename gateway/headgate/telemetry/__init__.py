"""What a process says of itself: its log, its health, and the catalogue of its metrics."""
