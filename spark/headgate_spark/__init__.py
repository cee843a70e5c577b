"""Headgate's Spark jobs. Of the gateway they import `headgate.core` alone."""
