def shown(
    head: str,
    partition: int,
    offset: int,
    key: bytes | None,
    event_id: str | None,
    records: int,
    /,
) -> str | None:
    """Return the JSON text of an event, head first; None if a text in it is not plain ASCII."""
