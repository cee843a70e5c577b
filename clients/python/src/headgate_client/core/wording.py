"""Words of log lines and error texts."""


def counted(number: int, noun: str) -> str:
    """Return `1 event`, `2 events`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
