"""Validation of a JSON text (RFC 8259) that arrives in pieces and is never stored as a whole.

Regular expressions replace each string and scalar by one sign. A state table then checks the signs:
10 MB/s for short tokens, 100 MB/s and more for long strings.
Memory: one piece, and a number for each open bracket.
"""

import re
from codecs import getincrementaldecoder

from headgate.model.outcome import Refused, malformed
from headgate.model.route import record_too_large

_STEP_BYTES = 32_768  # for one regular expression, which holds the interpreter's lock
_MAX_DIGITS = 1_048_576  # of one number: a piece may end inside a number, which is then kept

_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_INSIDE = rb'[^"\\\t\n\r]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\t\n\r]*+)*+'
_REST_OF_STRING = re.compile(_INSIDE)
_STRING = re.compile(rb'"' + _INSIDE + rb'"')
_STRINGS_WHOLE = re.compile(rb'(?:[^"]++|"' + _INSIDE + rb'")*+')
_CUT_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?")
_SCALAR = re.compile(rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+|true|false|null")
_SCALAR_SIGNS = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-."
_BLANK = b" \t\n\r"

_A_STRING, _A_SCALAR = b"\x01", b"\x02"  # control characters, which the text cannot contain here
_VALUES = b"\x01\x02"

# States that expect a value: of the text, an array's first or next element, a member.
_TEXT, _FIRST, _NEXT, _MEMBER = range(4)
# States after a value: of the text, in an array, in an object. Then: keys, and the colon.
_DONE, _IN_ARRAY, _IN_OBJECT, _FIRST_KEY, _KEY, _COLON = range(4, 10)
_AFTER = {_TEXT: _DONE, _FIRST: _IN_ARRAY, _NEXT: _IN_ARRAY, _MEMBER: _IN_OBJECT}
_CLOSE = -1


def _table() -> dict[tuple[int, int], int]:
    """Return the next state for each (state, sign), without opening brackets."""
    table = {(state, sign): after for state, after in _AFTER.items() for sign in _VALUES}
    table |= {(state, ord("]")): _CLOSE for state in (_FIRST, _IN_ARRAY)}
    table |= {(state, ord("}")): _CLOSE for state in (_FIRST_KEY, _IN_OBJECT)}
    table |= {(state, _A_STRING[0]): _COLON for state in (_FIRST_KEY, _KEY)}
    table[_COLON, ord(":")] = _MEMBER
    table[_IN_ARRAY, ord(",")] = _NEXT
    table[_IN_OBJECT, ord(",")] = _KEY
    return table


_GOES = _table()
_OPENS = {ord("["): _FIRST, ord("{"): _FIRST_KEY}


class JsonStream:
    """Validator of one text; `max_depth` limits nested arrays and objects."""

    def __init__(self, max_depth: int) -> None:
        self._max_depth = max_depth
        self._decoder = getincrementaldecoder("utf-8")()
        self._state = _TEXT
        self._open: list[int] = []  # for each open bracket, the state after its closing one
        self._carry = b""  # the beginning of an escape or scalar that continues in the next piece
        self._in_string = False
        self._at = 0

    def feed(self, piece: bytes) -> None:
        """Validate the next bytes. Raises Refused (malformed)."""
        for at in range(0, len(piece), _STEP_BYTES):
            self._step(piece[at : at + _STEP_BYTES])

    def end(self) -> None:
        """Validate the end of the text. Raises Refused (malformed)."""
        if not self._in_string:
            self._tokens(self._carry)
        if self._state != _DONE or self._in_string:
            raise Refused(malformed("the JSON text ends too early"))

    def _step(self, piece: bytes) -> None:
        try:
            self._decoder.decode(piece)
        except UnicodeDecodeError:
            raise self._wrong("invalid UTF-8") from None
        if _CONTROL.search(piece) is not None:
            raise self._wrong("a control character")
        text, self._carry = self._carry + piece, b""
        while text:
            text = self._string(text) if self._in_string else self._outside(text)
        self._at += len(piece)

    def _string(self, text: bytes) -> bytes:
        """Skip to the end of the string, and return the text after it."""
        match = _REST_OF_STRING.match(text)
        rest = text[match.end() if match else 0 :]
        if rest.startswith(b'"'):
            self._in_string = False
            self._parse(_A_STRING)
            return rest[1:]
        if rest and _CUT_ESCAPE.fullmatch(rest) is None:
            raise self._wrong("a string that is none")
        self._carry = rest
        return b""

    def _outside(self, text: bytes) -> bytes:
        """Parse complete tokens, and return the text after the quote of an incomplete string."""
        match = _STRINGS_WHOLE.match(text)
        end = match.end() if match else 0
        tokens = _STRING.sub(_A_STRING, text[:end])
        if end < len(text):
            self._tokens(tokens)
            self._in_string = True
            return text[end + 1 :]
        complete = tokens.rstrip(_SCALAR_SIGNS)
        self._carry = tokens[len(complete) :]
        if len(self._carry) > _MAX_DIGITS:
            raise self._wrong(f"a number of more than {_MAX_DIGITS} digits")
        self._tokens(complete)
        return b""

    def _tokens(self, text: bytes) -> None:
        self._parse(_SCALAR.sub(_A_SCALAR, text).translate(None, _BLANK))

    def _parse(self, tokens: bytes) -> None:
        state, unclosed = self._state, self._open
        for sign in tokens:
            if sign in _OPENS and state <= _MEMBER:
                unclosed.append(_AFTER[state])
                state = _OPENS[sign]
                if len(unclosed) > self._max_depth:
                    raise Refused(malformed(f"the JSON nests deeper than {self._max_depth}"))
                continue
            state = _GOES.get((state, sign), _TEXT)
            if state == _CLOSE:
                state = unclosed.pop()
            elif state == _TEXT:  # no sign leads to this state
                raise self._wrong("no JSON")
        self._state = state

    def _wrong(self, what: str) -> Refused:
        return Refused(malformed(f"the body has {what} near byte {self._at}"))


# ---- JSON objects without separators, as in Confluent's REST v3
#
# Only the ends of objects are found; their reader validates them. The time is linear in the bytes,
# whatever the sizes of the pieces are.


PIECE_BYTES = 32_768  # takes 2-4 ms for small records, and 10 ms for braces only

_BLANKS = re.compile(rb"[ \t\r\n]*")
_SIGN = re.compile(rb'["{}]')
_STRING_REST = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)


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
            raise Refused(record_too_large(self._limit))
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
                at = _end(_STRING_REST, data, at)
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
