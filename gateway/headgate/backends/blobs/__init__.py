"""The blob store, and what it is made of."""
