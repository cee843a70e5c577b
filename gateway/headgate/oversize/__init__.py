"""What becomes of events that are too large for their topic (3-ingest, "The oversize ladder")."""
