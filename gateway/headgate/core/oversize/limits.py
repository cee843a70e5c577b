"""What is too large, and by which limit: the detail of every 413 is put together here.

Its title and advice are with those of all reasons (`core.reasons`). Header fields that are too
large are another reason, with status 431 (`edge.server`).
"""

import heapq
from typing import Final, NamedTuple

from headgate.core.formats.jsontext import elements, members
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused
from headgate.core.topics.route import Route
from headgate.native.plain_answers import shortened

BEHIND: Final = Failure(
    Reason.KAFKA_UNAVAILABLE,
    "the event does not fit into one record, and earlier events of its topic still lie in the "
    "spool, which takes single records; nothing was written",
    retry_after_s=5,
)


def too_large(size: int, limit: int, name: str) -> Failure:
    """size and limit in bytes; name: which limit (`max_bytes`, `max.message.bytes`, ...)."""
    detail = f"{size} bytes are more than the limit of {limit} bytes ({name})"
    figures = {"size_bytes": size, "limit_bytes": limit, "limit": name}
    return Failure(Reason.TOO_LARGE, detail, figures)


def streamed_record(limit: int) -> Failure:
    """A record of a stream of records; its size is not known, as reading ended at the limit."""
    name = "http.body_max_bytes"
    detail = f"a record has more than the limit of {limit} bytes ({name})"
    return Failure(Reason.TOO_LARGE, detail, {"limit_bytes": limit, "limit": name})


def streamed_batch() -> Failure:
    """A batch over the limit of a body: only single events go straight to the blob store."""
    return Failure(
        Reason.TOO_LARGE,
        "a batch over http.body_max_bytes: send fewer events in one request, or "
        "Headgate-Batch: false where the array is one event",
    )


def stored_in_vain(route: Route) -> Failure:
    """A value that is in the blob store already, and its topic has no strategies by now."""
    if route.is_behind:
        return BEHIND
    return Failure(
        Reason.TOO_LARGE, "the topic's option oversize has no claim-check since a reload"
    )


def management_body(limit: int) -> Failure:
    """A body for the control plane; no option sets its limit."""
    return Failure(Reason.TOO_LARGE, f"the body is over {limit} bytes")


def replay_request(why: str) -> Failure:
    """A replay that does not fit into a record of the registry; why: its size and the limit."""
    advice = "ask for less, with fewer values in its filter or fewer partitions"
    return Failure(Reason.TOO_LARGE, f"{why}: {advice}")


def refused_by_kafka(size: int, limit: int) -> Failure:
    """What fitted by the limit as it was known, until Kafka knew another."""
    detail = "Kafka refused the record: it is larger than the topic's max.message.bytes"
    return too_large(size, limit, "max.message.bytes")._replace(detail=detail)


def fits(route: Route, value_bytes: int, record_bytes: int) -> bool:
    """Whether an event of these sizes is within both limits of its topic.

    record_bytes: as `record.size_of` bounds them. Kafka's limit is per batch after compression:
    what fits uncompressed surely passes.
    """
    return value_bytes <= route.max_value_bytes and record_bytes <= route.max_record_bytes


def exceeded(route: Route, value_bytes: int, record_bytes: int) -> Failure:
    """Which limit of its topic an event exceeds: one of the two.

    The topic may have a strategy for it once nothing of the topic lies in the spool: until then it
    is a refusal that passes.
    """
    if route.is_behind:
        return BEHIND
    if value_bytes > route.max_value_bytes:
        failure = too_large(value_bytes, route.max_value_bytes, "max_bytes")
    else:
        failure = too_large(record_bytes, route.max_record_bytes, "max.message.bytes")
    if not route.strategies:
        return failure
    detail = f"{failure.detail}, and does not fit by any of: {', '.join(route.strategies)}"
    return failure._replace(detail=detail)


# Where the bytes of a JSON document are: the JSON Pointers that weigh most.


DOMINANT = 0.5  # a child with half of its parent's bytes says more than the parent does
_MAX_STEPS = 64  # each step scans one value; bounds the work on adversarial nesting


class Weight(NamedTuple):
    """A JSON Pointer and the bytes of the value it names, as sent."""

    path: str
    bytes: int


def heaviest(document: bytes, count: int = 5) -> list[Weight]:
    """The heaviest values of a document, none inside another, heaviest first.

    A value is opened as long as one child holds half of it, and the root always: of a deal with
    600 options the answer is `/options`, not the deal and not one option. [] if it is not JSON.
    """
    heap: list[tuple[int, str, bytes]] = []
    weights: list[Weight] = []
    _open("", document.strip(), heap)
    for _ in range(_MAX_STEPS):
        if not heap or len(weights) == count:
            break
        size, path, value = heapq.heappop(heap)
        children = _children(path, value)
        if children and max(-child[0] for child in children) >= DOMINANT * -size:
            for child in children:
                heapq.heappush(heap, child)
        else:
            # A name may hold a lone surrogate, which no answer can carry: shown as its escape.
            shown = path.encode("utf-8", "backslashreplace").decode()
            weights.append(Weight(shortened(shown), -size))
    return weights


def _open(path: str, value: bytes, heap: list[tuple[int, str, bytes]]) -> None:
    for child in _children(path, value):
        heapq.heappush(heap, child)


def _children(path: str, value: bytes) -> list[tuple[int, str, bytes]]:
    try:
        if value[:1] == b"{":
            named = list(members(value).items())
        elif value[:1] == b"[":
            named = [(str(index), child) for index, child in enumerate(elements(value))]
        else:
            return []
    except (Refused, UnicodeDecodeError):
        return []
    return [(-len(child), f"{path}/{_escaped(name)}", child) for name, child in named]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
