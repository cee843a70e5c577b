"""Requests and answers, without an HTTP library."""
