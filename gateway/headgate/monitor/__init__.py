"""All consumer groups of all clusters: polled, followed, judged and shown."""
