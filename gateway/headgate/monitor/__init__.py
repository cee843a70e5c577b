"""All consumer groups of all clusters: looked at, followed, judged and shown."""
