"""The quick way to read a body: in one pass in C, as long as nothing in it is unusual.

`_scanner` is there in the compiled build alone (setup.py). What it accepts is read as `decode`,
`Route.record` and the topic's digest would have read it; whatever it does not accept, they read
and judge.
"""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Final, Protocol

from headgate.core.content import INLINE_BYTES, Comparison, Digester
from headgate.core.event import Decoded
from headgate.core.formats.canonical import Pointer
from headgate.core.formats.decode import BodyKind, kind_of
from headgate.core.keys import KEY_MAX_BYTES, KeyRule
from headgate.core.topics.policy import TopicPolicy
from headgate.core.topics.topic import TopicState
from headgate.native import chosen

# Looking a member up in an Enum class costs 0.1 us in Python 3.11.
_JSON: Final = BodyKind.JSON
_NDJSON: Final = BodyKind.NDJSON
_MAX_PARTS: Final = 4  # of a key, and
_MAX_NAMES: Final = 16  # on the way to them: as in native/_json_strings.h

# Values, keys, partitions and digests.
Scanned = tuple[list[bytes], list[bytes] | None, list[int] | None, list[bytes | None] | None]


# The hash's key, what it is fed before each value; what is left out of canonical forms (None:
# there are none), and of how long documents they are made.
_Digests = tuple[bytes | None, bytes, tuple[tuple[bytes, ...], ...] | None, int]
_NO_DIGESTS: Final[_Digests] = (None, b"", None, 0)


class Scanner(Protocol):
    """What `_scanner.Scanner` does."""

    def lines(self, body: bytes, limit: int, /) -> Scanned | None: ...

    def elements(self, body: bytes, limit: int, /) -> Scanned | None: ...

    def one(self, body: bytes, /) -> Scanned | None: ...


def scanner_for(
    policy: TopicPolicy,
    lane: TopicState,
    json_max_depth: int,
    compared: Digester | Comparison | None,
    key_max_bytes: int = KEY_MAX_BYTES,
) -> Scanner | None:
    """The scanner of a topic whose plain documents it can read, else None.

    lane: the topic that its events are written to.  compared: whose digests the events get; None
    where the topic does not suppress, or where its events are digested later.
    """
    pointers = KeyRule.parse(policy.key).pointers
    if chosen.Scanner is None or not _is_readable(pointers, _MAX_PARTS):
        return None
    if not pointers and policy.keyless != "spread":
        return None  # each event needs a key that its request brings
    limit = lane.batch_limit_bytes if policy.max_bytes is None else policy.max_bytes
    # What has no key is not compared; with a digest, suppression would settle it nevertheless.
    digests = _digests(compared) if pointers else _NO_DIGESTS
    rules = (_encoded(pointers), lane.partitions, json_max_depth, limit)
    scanner: Scanner = chosen.Scanner(*rules, *digests, key_max_bytes)
    return scanner


def _digests(compared: Digester | Comparison | None) -> _Digests:
    if compared is None:
        return _NO_DIGESTS
    if isinstance(compared, Digester):
        return (*compared.of_documents, None, 0)
    ignore = _shortest(compared.ignore)
    if not _is_readable(ignore, _MAX_NAMES):
        return _NO_DIGESTS
    max_bytes = min(compared.max_bytes, INLINE_BYTES)
    return (*compared.forms.of_documents, _encoded(ignore), max_bytes)


def _shortest(pointers: Sequence[Pointer]) -> tuple[Pointer, ...]:
    """Without those that lead to or into what another one leaves out."""
    given = dict.fromkeys(pointers)
    return tuple(one for one in given if all(one[:depth] not in given for depth in range(len(one))))


def _encoded(pointers: Sequence[Pointer]) -> tuple[tuple[bytes, ...], ...]:
    return tuple(tuple(name.encode() for name in pointer) for pointer in pointers)


def _is_readable(pointers: Sequence[Pointer], limit: int) -> bool:
    """Whether the scanner knows such pointers: few, none within another."""
    names = {pointer[:depth] for pointer in pointers for depth in range(1, len(pointer) + 1)}
    is_apart = all(one != other[: len(one)] for one, other in permutations(pointers, 2))
    return is_apart and () not in pointers and len(pointers) <= limit and len(names) <= _MAX_NAMES


def scan(
    scanner: Scanner, body: bytes, headers: Mapping[bytes, bytes], limit: int
) -> Decoded | None:
    """None: read it in the ordinary way. limit: events that the caller will take.

    Only for requests none of whose headers says something about a single event, but for its id
    (`RequestOptions.is_plain`).
    """
    if b"ce-specversion" in headers or b"headgate-batch" in headers:
        return None
    kind, is_batch = kind_of(headers.get(b"content-type", b"")), True
    if kind is _NDJSON:
        scanned = scanner.lines(body, limit)
    elif kind is not _JSON:
        return None
    elif body[:1] == b"{":
        scanned, is_batch = scanner.one(body), False
    else:
        scanned = scanner.elements(body, limit)
    if scanned is None:
        return None
    values, keys, partitions, digests = scanned
    return Decoded(
        values, is_batch, is_plain=True, keys=keys, partitions=partitions, digests=digests
    )
