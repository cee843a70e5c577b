"""Cuts a stream of JSON objects that follow each other without any sign between them.

Confluent's REST v3 sends records so. Only ends of objects are looked for; whether an object is
valid JSON is its reader's business. Linear in the bytes, however they are split into pieces.
"""

import re

from headgate.core.oversize.limits import streamed_record
from headgate.core.refusal import Refused, malformed

PIECE_BYTES = 32_768  # cut in 2-4 ms where records are small; nothing but braces takes 10

_BLANKS = re.compile(rb"[ \t\r\n]*")
_SIGN = re.compile(rb'["{}]')
_REST_OF_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)


class Documents:
    """The stream so far. max_bytes: of one object.

    pending: bytes that are waiting for their object's end.
    """

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
        """The objects that end in this piece, each its exact slice of the stream.

        What was found before the stream broke is returned first: `check` raises Refused then.
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
        """Raises Refused when what follows the objects found so far cannot begin another one."""
        if self._depth == 0 and self._data:
            self.feed(b"")

    def end(self) -> None:
        """The stream is over. Raises Refused when an object is not."""
        self._forget(_end(_BLANKS, self._data, 0) if self._depth == 0 else 0)
        if self._data:
            raise Refused(malformed("the stream ends in the middle of a record"))

    def _object_end(self) -> int | None:
        """The place behind the object that is open at `_at`, None where it is not there yet."""
        data, at, depth = self._data, self._at, self._depth
        while True:
            if self._in_string:
                at = _end(_REST_OF_STRING, data, at)
                if at == len(data) or data[at] != ord('"'):
                    break  # behind a backslash the next piece begins
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
