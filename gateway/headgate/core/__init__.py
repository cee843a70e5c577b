"""Decisions: plain functions and small state machines. Callers pass the time."""
