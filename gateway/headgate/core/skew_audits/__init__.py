"""Skew audits: what is kept of earlier ones, and what differs between two."""
