"""Skew audits and the facts that they read: collected, written, read and compared."""
