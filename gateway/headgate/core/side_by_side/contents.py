"""What of a record is compared: its key by a rule of both topics, and its content."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from headgate.core.content import Comparison
from headgate.core.formats.jsontext import KeyReader
from headgate.core.keys import KeyRule
from headgate.core.record import CHUNK_SET, DATAREF, OVERSIZE, SPLIT
from headgate.core.refusal import Refused

_JSON: Final = b"application/json"  # whatever a record says of itself: others say nothing
_STANDS_FOR_A_VALUE: Final = frozenset((OVERSIZE, DATAREF, CHUNK_SET, SPLIT))
_NO_LIMIT: Final = 1 << 40  # bytes

Headers = Iterable[tuple[str, bytes | None]]


class Seen(NamedTuple):
    """Of one record. content: None of a tombstone.  is_reference: its value is elsewhere."""

    key: bytes | None
    content: bytes | None
    is_reference: bool


class ContentRule:
    """How both topics are read.

    key: JSON Pointers into values, whose values are the key; none: the record's own key.  ignore:
    JSON Pointers to what does not count.  as_sent: bytes are compared, not JSON values.
    Raises BadPointer.
    """

    def __init__(self, key: Sequence[str], ignore: Sequence[str], *, as_sent: bool) -> None:
        self._key = KeyReader(KeyRule.parse(key)) if key else None
        self._comparison = None if as_sent else Comparison(b"compare", ignore, _NO_LIMIT)

    def see(self, key: bytes | None, value: bytes | None, headers: Headers) -> Seen:
        """What is compared of this record."""
        if self._key is not None and value is not None:
            try:
                key = self._key(value)
            except Refused:  # not JSON, or without it
                key = None
        content = value
        if value is not None and self._comparison is not None:
            content, _ = self._comparison.digest(value, _JSON)
        return Seen(key, content, any(name in _STANDS_FOR_A_VALUE for name, _ in headers))
