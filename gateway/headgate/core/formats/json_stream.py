"""Validation of a JSON text (RFC 8259) that arrives in pieces and is never stored as a whole.

Regular expressions replace each string and scalar by one sign. A state table then checks the signs:
10 MB/s for short tokens, 100 MB/s and more for long strings.
Memory: one piece, and a number for each open bracket.
"""

import re
from codecs import getincrementaldecoder

from headgate.core.refusal import Refused, malformed

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
