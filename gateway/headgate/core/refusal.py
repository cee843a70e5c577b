"""Refusals of requests and events, with the failure for the client."""

from typing import Final

from headgate.core.outcome import Failure, Reason

SHOWN: Final = 100  # maximum length of a client's text in a response or a log line


class Refused(Exception):
    """Refusal of an event or of the whole request, with a Failure.

    Args:
        failure: The failure for the client.
        producer: The identified caller, for the log, if it lacks a permission.
    """

    def __init__(self, failure: Failure, producer: str = "") -> None:
        super().__init__(failure.detail)
        self.failure = failure
        self.producer = producer


class TooMuch(Refused):
    """Refusal of a body above the limit; `chunks` are the parts that were read.

    It is a normal refusal, unless the event can be streamed (`http.streams`). It is defined here,
    because a compiled class can only have compiled subclasses.
    """

    def __init__(self, failure: Failure, chunks: list[bytes]) -> None:
        super().__init__(failure)
        self.chunks = chunks


def brief(text: str) -> str:
    """Quote a text from a request; a long text is shortened."""
    return f"{text[:SHOWN]!r}..." if len(text) > SHOWN else repr(text)


def long_key(max_bytes: int) -> Failure:
    """Return the failure of a key that is too long, without the key itself."""
    detail = f"the key is longer than http.key_max_bytes = {max_bytes}"
    return Failure(Reason.INVALID_KEY, detail, {"limit_bytes": max_bytes})


def malformed(detail: str) -> Failure:
    """Return the failure of a malformed text or request."""
    return Failure(Reason.MALFORMED, detail)
