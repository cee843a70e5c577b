"""Fast path for plain bodies: one pass in C reads values, keys, partitions and digests.

Only the compiled build has `_scanner` (setup.py). Its results equal those of `decode`,
`Route.record` and the topic's digest, which read every body that the scanner does not accept.
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
_MAX_PARTS: Final = 4  # parts of a key
_MAX_NAMES: Final = 16  # names in the pointers to them, as in native/_json_strings.h

# Values, keys, partitions and digests.
Scanned = tuple[list[bytes], list[bytes] | None, list[int] | None, list[bytes | None] | None]


# The key of the hash, its input before each value, the pointers that canonical forms ignore (None:
# no canonical forms), and the maximum size of a document with a canonical form.
_Digests = tuple[bytes | None, bytes, tuple[tuple[bytes, ...], ...] | None, int]
_NO_DIGESTS: Final[_Digests] = (None, b"", None, 0)


class Scanner(Protocol):
    """Interface of `_scanner.Scanner`."""

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
    """Return a scanner for the topic, or None if a scanner cannot read its plain documents.

    Args:
        policy: The policy of the topic.
        lane: The topic that its events are written to.
        json_max_depth: Maximum depth of nested arrays and objects.
        compared: Computes the digests; None if the topic does not suppress, or if its events get
            their digests later.
        key_max_bytes: Maximum size of a key, in bytes.
    """
    pointers = KeyRule.parse(policy.key).pointers
    if chosen.Scanner is None or not _is_readable(pointers, _MAX_PARTS):
        return None
    if not pointers and policy.keyless != "spread":
        return None  # the key of each event must come from its request
    limit = lane.batch_limit_bytes if policy.max_bytes is None else policy.max_bytes
    # Events without a key are not compared. With a digest, suppression would settle them anyway.
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
    """Drop pointers into a value that another pointer already ignores."""
    given = dict.fromkeys(pointers)
    return tuple(
        pointer
        for pointer in given
        if all(pointer[:depth] not in given for depth in range(len(pointer)))
    )


def _encoded(pointers: Sequence[Pointer]) -> tuple[tuple[bytes, ...], ...]:
    return tuple(tuple(name.encode() for name in pointer) for pointer in pointers)


def _is_readable(pointers: Sequence[Pointer], limit: int) -> bool:
    """Return whether the scanner supports the pointers: few, and none inside another one."""
    names = {pointer[:depth] for pointer in pointers for depth in range(1, len(pointer) + 1)}
    is_apart = all(outer != inner[: len(outer)] for outer, inner in permutations(pointers, 2))
    return is_apart and () not in pointers and len(pointers) <= limit and len(names) <= _MAX_NAMES


def scan(
    scanner: Scanner, body: bytes, headers: Mapping[bytes, bytes], limit: int
) -> Decoded | None:
    """Decode a body with the scanner; None if `decode` must read it.

    Only for requests whose headers set nothing but the id of a single event
    (`RequestOptions.is_plain`).

    Args:
        scanner: The scanner of the topic.
        body: The body of the request.
        headers: The headers of the request, names in lower case.
        limit: Maximum number of events.
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
