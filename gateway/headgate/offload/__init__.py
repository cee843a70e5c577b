"""Work that would hold up the event loop, done in a helper process."""
