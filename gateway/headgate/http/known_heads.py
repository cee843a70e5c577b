"""Cache of request heads.

A client sends nearly the same head with each request. aiohttp's parser reads the first one. Later
heads that differ only in values without effect on parsing (length, ids, a key) are recognised by
their bytes. This takes a fifth of the parser's time (loadtest/README.md). Nothing is parsed here: a
head is known only if aiohttp accepted one like it.
"""

from collections.abc import Mapping
from typing import Final

from headgate.native.chosen import framed

Headers = Mapping[bytes, bytes]

_LENGTH: Final = b"content-length"
_HEADS_REMEMBERED: Final = 1000  # clients choose them freely


class Framed:
    """Position of a request in received bytes.

    Attributes:
        same: Its head without the values that vary.
        own: Values that vary, except the length; names in lower case.
        start: Start of its body.
        end: End of its body, which may not have arrived completely.
    """

    __slots__ = ("end", "own", "same", "start")

    def __init__(self, same: bytes, own: dict[bytes, bytes], start: int, end: int) -> None:
        self.same: Final = same
        self.own: Final = own
        self.start: Final = start
        self.end: Final = end


def frame(data: bytes) -> Framed | None:
    """Return the request at the start of the data, or None.

    None if its head is incomplete, long or without a length, or if a varying value occurs twice or
    is no plain word.
    """
    request = framed(data)
    if request is None:
        return None
    same, own, start, end = request
    return Framed(same, own, start, end)


class KnownHeads:
    """A cache of topics and headers by request head."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[str, dict[bytes, bytes]]] = {}

    def learn(self, framed: Framed, topic: str, headers: Headers) -> None:
        """Remember the head of a plain post.

        Args:
            framed: Position of the request.
            topic: Topic of the request.
            headers: All headers; names in lower case.
        """
        if len(self._known) >= _HEADS_REMEMBERED:
            self._known.clear()
        shared = {
            name: value
            for name, value in headers.items()
            if name not in framed.own and name != _LENGTH
        }
        self._known[framed.same] = topic, shared

    def find(self, framed: Framed) -> tuple[str, Headers] | None:
        """Return topic and headers (without the length) of a request with a known head."""
        cached = self._known.get(framed.same)
        if cached is None or not framed.own:
            return cached
        topic, headers = cached
        return topic, {**headers, **framed.own}
