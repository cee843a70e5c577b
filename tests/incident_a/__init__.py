"""Incident A (docs/design/incidents.md), as `make incident-a` and the tests run it."""
