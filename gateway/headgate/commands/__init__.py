"""The commands of `headgate`: `register_NAME` declares one, `run_NAME` runs it.

A command imports what it needs inside `run_NAME`, so that `headgate --help` and the other commands
stay quick.
"""
