"""Suppression: what "the same content" is, and the protocol's rules."""
