"""How a request, or one event of it, is refused: with the failure that the client is told."""

from typing import Final

from headgate.core.outcome import Failure, Reason

SHOWN: Final = 100  # characters of a client's text that an answer or a log line repeats at a time


class Refused(Exception):
    """Ends one event, or the whole request, with a Failure.

    Args:
        failure: The failure that the client is told.
        producer: The identified caller, for the log, if it may not do what it asked for.
    """

    def __init__(self, failure: Failure, producer: str = "") -> None:
        super().__init__(failure.detail)
        self.failure = failure
        self.producer = producer


class TooMuch(Refused):
    """A body goes beyond the cap as it was sent. chunks: what has been read of it.

    Refused like any other, unless its event can do without being in memory (`edge.streams`).
    Here, because a compiled class may only have compiled subclasses.
    """

    def __init__(self, failure: Failure, chunks: list[bytes]) -> None:
        super().__init__(failure)
        self.chunks = chunks


def brief(text: str) -> str:
    """Quote a text that came with a request: its beginning, if it is long."""
    return f"{text[:SHOWN]!r}..." if len(text) > SHOWN else repr(text)


def long_key(max_bytes: int) -> Failure:
    """What is said of a key beyond the bound; the key itself is not repeated."""
    detail = f"the key is longer than http.key_max_bytes = {max_bytes}"
    return Failure(Reason.INVALID_KEY, detail, {"limit_bytes": max_bytes})


def malformed(detail: str) -> Failure:
    """What is said of a text or request that cannot be read."""
    return Failure(Reason.MALFORMED, detail)
