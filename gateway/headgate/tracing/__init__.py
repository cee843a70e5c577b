"""Tracing: what measures the stages, and what brings spans to the collector."""
