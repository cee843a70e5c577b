"""The jobs on the command line."""
