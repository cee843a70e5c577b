"""Incident A of the mission, as `make incident-a` and the tests run it."""
