"""Confluent's REST v2 and v3, the producing half, in front of the same pipeline as /v1."""
