"""Measuring producers: a `Meter` a worker, snapshots that merge, and their Prometheus text.

Life of a figure: the hot path calls `Meter.account` once a request -> the worker's snapshot ->
the parent merges the workers' snapshots (`stats.fleet`) -> /metrics (`stats.exposition`) and the
control plane's views (`edge.management.control_plane`).
"""
