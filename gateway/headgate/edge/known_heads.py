"""Request heads that were read before: what comes again means the same again.

A client sends nearly the same head with each request. aiohttp's parser reads the first; one that
differs only in values which do not change how it is read (its length, ids, a key) is known by its
bytes. Reading a request so takes a fifth of the parser's time (loadtest/README.md), and nothing is
parsed here: a head is known only if aiohttp took one like it.
"""

from collections.abc import Mapping
from typing import Final

from headgate.native.chosen import framed

Headers = Mapping[bytes, bytes]

_LENGTH: Final = b"content-length"
_HEADS_REMEMBERED: Final = 1000  # clients choose them freely


class Framed:
    """Where a request lies in the bytes that came.

    same: its head without the values that are its own.  own: those, but for the length; names in
    lower case.  start, end: of its body, which may not have come as a whole yet.
    """

    __slots__ = ("end", "own", "same", "start")

    def __init__(self, same: bytes, own: dict[bytes, bytes], start: int, end: int) -> None:
        self.same: Final = same
        self.own: Final = own
        self.start: Final = start
        self.end: Final = end


def frame(data: bytes) -> Framed | None:
    """The request that the data begins with. None: its head is not whole, is long, or names no
    length, or one of its own values twice or not as a plain word."""
    found = framed(data)
    if found is None:
        return None
    same, own, start, end = found
    return Framed(same, own, start, end)


class KnownHeads:
    """Topic and headers of heads like those that `learn` was given."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[str, dict[bytes, bytes]]] = {}

    def learn(self, framed: Framed, topic: str, headers: Headers) -> None:
        """Another request with this head would be a plain post with these headers.

        framed: of the request.  headers: all of them, names in lower case.
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
        """Topic and headers (without the length) of a request with a known head, else None."""
        known = self._known.get(framed.same)
        if known is None or not framed.own:
            return known
        topic, headers = known
        return topic, {**headers, **framed.own}
