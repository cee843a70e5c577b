def shown(
    head: str,
    partition: int,
    offset: int,
    key: bytes | None,
    event_id: str | None,
    records: int,
    /,
) -> str | None:
    """The JSON text of an event, head first; None where a text in it is not plain ASCII."""
