"""Metrics, log and health of a process, from the counter on the hot path to /metrics.

Life of a metric: the hot path calls a method of the worker's `Meter` -> the worker's snapshot ->
the parent merges the workers' snapshots (`metrics.fleet`) -> /metrics (`metrics.exposition`) and
the control plane's views (`admin.control_plane`).
"""
