"""How a request, or one event of it, is refused: with the failure that the client is told."""

from headgate.core.outcome import Failure, Reason


class Refused(Exception):
    """Ends one event, or the whole request, with a Failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class TooMuch(Refused):
    """A body goes beyond the cap as it was sent. chunks: what has been read of it.

    Refused like any other, unless its event can do without being in memory (`edge.streams`).
    Here, because a compiled class may only have compiled subclasses.
    """

    def __init__(self, failure: Failure, chunks: list[bytes]) -> None:
        super().__init__(failure)
        self.chunks = chunks


def malformed(detail: str) -> Failure:
    """What is said of a text or request that cannot be read."""
    return Failure(Reason.MALFORMED, detail)
