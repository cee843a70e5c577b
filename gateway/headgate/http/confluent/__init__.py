"""The producing part of Confluent's REST v2 and v3, in front of the same pipeline as /v1."""
