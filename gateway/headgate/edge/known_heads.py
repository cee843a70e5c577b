"""Request heads that were read before: what comes again means the same again.

A client sends nearly the same head with each request. aiohttp's parser reads the first; one that
differs only in values which do not change how it is read (its length, ids, a key) is known by its
bytes. Reading a request so takes a fifth of the parser's time (loadtest/README.md), and nothing is
parsed here: a head is known only if aiohttp took one like it.
"""

import re
from collections.abc import Mapping
from typing import Final

Headers = Mapping[bytes, bytes]

# `http.header_max_bytes` is at least 1024, which no value here comes near.
_OWN_VALUES: Final = re.compile(
    rb"\r\n([Cc]ontent-[Ll]ength|[Xx]-[Rr]equest-[Ii][Dd]|[Tt]raceparent"
    rb"|[Hh]eadgate-(?:[Kk]ey|[Ee]vent-[Ii]d|[Tt]imestamp)): ?([!-~]{1,128})(?=\r\n)"
)
_LENGTH: Final = b"content-length"
_LENGTH_DIGITS: Final = 9
_END: Final = b"\r\n\r\n"
_HEAD_MAX_BYTES: Final = 4096
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
    length."""
    stop = data.find(_END, 0, _HEAD_MAX_BYTES)
    if stop < 0:
        return None
    parts: list[bytes] = []
    own: dict[bytes, bytes] = {}
    length, at = b"", 0
    for found in _OWN_VALUES.finditer(data, 0, stop + 2):
        name, value = found[1].lower(), found[2]
        begin = found.start(2)
        parts.append(data[at:begin])
        at = begin + len(value)
        if name == _LENGTH and not length:
            length = value
        elif name in own or name == _LENGTH:
            return None
        else:
            own[name] = value
    if not length.isdigit() or len(length) > _LENGTH_DIGITS:
        return None
    parts.append(data[at:stop])
    start = stop + len(_END)
    return Framed(b"".join(parts), own, start, start + int(length))


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
