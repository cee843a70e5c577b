"""The quick way to read a body: in one pass in C, as long as nothing in it is unusual.

`_scanner` is there in the compiled build alone (setup.py). What it accepts is read as `decode`,
`Route.record` and the topic's digest would have read it; whatever it does not accept, they read
and judge.
"""

from collections.abc import Mapping
from itertools import permutations
from typing import Final, Protocol

from headgate.core.event import Decoded
from headgate.core.formats.decode import BodyKind, kind_of
from headgate.core.keys import KeyRule
from headgate.core.suppression.digest import Digester
from headgate.core.topics.policy import TopicPolicy
from headgate.core.topics.topic import TopicState
from headgate.native import chosen

# Looking a member up in an Enum class costs 0.1 us in Python 3.11.
_JSON: Final = BodyKind.JSON
_NDJSON: Final = BodyKind.NDJSON
_MAX_PARTS: Final = 4  # of a key, and
_MAX_NAMES: Final = 16  # on the way to them: as in native/_json_strings.h

# Values, keys, partitions and digests.
Scanned = tuple[list[bytes], list[bytes] | None, list[int] | None, list[bytes] | None]


class Scanner(Protocol):
    """What `_scanner.Scanner` does."""

    def lines(self, body: bytes, limit: int, /) -> Scanned | None: ...

    def elements(self, body: bytes, limit: int, /) -> Scanned | None: ...

    def one(self, body: bytes, /) -> Scanned | None: ...


def scanner_for(
    policy: TopicPolicy, lane: TopicState, json_max_depth: int, digester: Digester | None
) -> Scanner | None:
    """The scanner of a topic whose plain documents it can read, else None.

    lane: the topic that its events are written to.  digester: None where the topic does not
    suppress, or where its events are digested later.
    """
    pointers = KeyRule.parse(policy.key).pointers
    if chosen.Scanner is None or not _is_readable(pointers):
        return None
    if not pointers and policy.keyless != "spread":
        return None  # each event needs a key that its request brings
    limit = lane.batch_limit_bytes if policy.max_bytes is None else policy.max_bytes
    names = tuple(tuple(name.encode() for name in pointer) for pointer in pointers)
    # What has no key is not compared; with a digest, suppression would settle it nevertheless.
    key, prefix = (None, b"") if digester is None or not names else digester.of_documents
    scanner: Scanner = chosen.Scanner(names, lane.partitions, json_max_depth, limit, key, prefix)
    return scanner


def _is_readable(pointers: tuple[tuple[str, ...], ...]) -> bool:
    """Whether the scanner knows such a key rule: few parts, none within another."""
    names = {pointer[:depth] for pointer in pointers for depth in range(1, len(pointer) + 1)}
    is_apart = all(one != other[: len(one)] for one, other in permutations(pointers, 2))
    return (
        is_apart and () not in pointers and len(pointers) <= _MAX_PARTS and len(names) <= _MAX_NAMES
    )


def scan(
    scanner: Scanner, body: bytes, headers: Mapping[bytes, bytes], limit: int
) -> Decoded | None:
    """None: read it in the ordinary way. limit: events that the caller will take.

    Only for requests none of whose headers says something about a single event
    (`RequestOptions.single_event_header`).
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
