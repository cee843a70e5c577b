"""The composition roots: settings and real backends become a running process."""
