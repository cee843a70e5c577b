"""Helper process for work that would block the event loop."""
