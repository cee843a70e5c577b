"""Decides: plain functions and small state machines that are told the time."""
