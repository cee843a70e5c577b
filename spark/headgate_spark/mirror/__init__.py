"""The mirror: topics of an ingest cluster in its backfill tier."""
