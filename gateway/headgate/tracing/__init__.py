"""Tracing: measurement of the stages, and export of spans to the collector."""
