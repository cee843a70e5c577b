"""Decisions of both clients, without sockets, clocks or threads."""
