"""Splitting of a stream of JSON objects without separators, as in Confluent's REST v3.

Only the ends of objects are found; their reader validates them. The time is linear in the bytes,
whatever the sizes of the pieces are.
"""

import re

from headgate.core.oversize.limits import streamed_record
from headgate.core.refusal import Refused, malformed

PIECE_BYTES = 32_768  # takes 2-4 ms for small records, and 10 ms for braces only

_BLANKS = re.compile(rb"[ \t\r\n]*")
_SIGN = re.compile(rb'["{}]')
_REST_OF_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)


class Documents:
    """A stream of objects; `max_bytes` limits each of them."""

    __slots__ = ("_at", "_data", "_depth", "_in_string", "_limit")

    def __init__(self, max_bytes: int) -> None:
        self._limit = max_bytes
        self._data = bytearray()
        self._at = 0
        self._depth = 0
        self._in_string = False

    @property
    def pending(self) -> int:
        return len(self._data)

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the objects that end in this piece, each as its exact slice of the stream.

        Objects before an error are returned first; `check` raises Refused afterwards.
        """
        self._data += piece
        documents: list[bytes] = []
        start = 0
        while True:
            if self._depth == 0:
                start = self._at = _end(_BLANKS, self._data, start)
                if start == len(self._data):
                    break
                if self._data[start] != ord("{"):
                    if documents:
                        break
                    raise Refused(malformed("a record is a JSON object; the stream ends here"))
            end = self._object_end()
            if end is None:
                break
            documents.append(bytes(self._data[start:end]))
            start = end
        self._forget(start)
        if not documents and len(self._data) > self._limit:
            raise Refused(streamed_record(self._limit))
        return documents

    def check(self) -> None:
        """Raise Refused if the rest of the stream cannot begin another object."""
        if self._depth == 0 and self._data:
            self.feed(b"")

    def end(self) -> None:
        """Check the end of the stream. Raises Refused if an object is incomplete."""
        self._forget(_end(_BLANKS, self._data, 0) if self._depth == 0 else 0)
        if self._data:
            raise Refused(malformed("the stream ends in the middle of a record"))

    def _object_end(self) -> int | None:
        """Return the position after the open object, or None if its end has not arrived."""
        data, at, depth = self._data, self._at, self._depth
        while True:
            if self._in_string:
                at = _end(_REST_OF_STRING, data, at)
                if at == len(data) or data[at] != ord('"'):
                    break  # the piece ends after a backslash
                self._in_string = False
                at += 1
            sign = _SIGN.search(data, at)
            if sign is None:
                at = len(data)
                break
            at = sign.end()
            if sign[0] == b'"':
                self._in_string = True
            else:
                depth += 1 if sign[0] == b"{" else -1
                if depth == 0:
                    self._at = at
                    self._depth = 0
                    return at
        self._at, self._depth = at, depth
        return None

    def _forget(self, count: int) -> None:
        del self._data[:count]
        self._at -= count


def _end(pattern: re.Pattern[bytes], data: bytearray, at: int) -> int:
    match = pattern.match(data, at)
    return match.end() if match is not None else at
