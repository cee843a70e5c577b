"""Monitoring of all consumer groups of all clusters."""
