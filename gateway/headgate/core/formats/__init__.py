"""Bodies: what they may look like, and the events in them."""
