"""Headgate's Spark jobs. Of the gateway they import `core`, `kafka`, what finds Java and jars."""
