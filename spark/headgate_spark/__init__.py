"""Headgate's Spark jobs. They import few of the gateway's modules (`tests/test_layers.py`)."""
