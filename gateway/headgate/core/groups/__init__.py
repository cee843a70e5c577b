"""Consumer groups over time: what was seen of them, and what it means."""
