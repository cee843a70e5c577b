"""Headgate's Spark jobs. Of the gateway they import `model`, `kafka`, what finds Java and jars."""
