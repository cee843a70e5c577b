"""Formats of bodies, and the events in them."""
