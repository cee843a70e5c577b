"""Limits of sizes, and the detail of every 413 response.

Titles and advice are those of the reasons (`core.reasons`). Header fields that are too large are
another reason, with status 431 (`http.server`).
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
    """Return the failure of data above a limit.

    Args:
        size: The size, in bytes.
        limit: The limit, in bytes.
        name: The name of the limit, such as `max_bytes` or `max.message.bytes`.
    """
    detail = f"{size} bytes are more than the limit of {limit} bytes ({name})"
    figures = {"size_bytes": size, "limit_bytes": limit, "limit": name}
    return Failure(Reason.TOO_LARGE, detail, figures)


def streamed_record(limit: int) -> Failure:
    """Return the failure of a streamed record; reading ended at the limit, in bytes."""
    name = "http.body_max_bytes"
    detail = f"a record has more than the limit of {limit} bytes ({name})"
    return Failure(Reason.TOO_LARGE, detail, {"limit_bytes": limit, "limit": name})


def streamed_batch() -> Failure:
    """Return the failure of a batch above the body limit; only single events are streamed."""
    return Failure(
        Reason.TOO_LARGE,
        "a batch over http.body_max_bytes: send fewer events in one request, or "
        "Headgate-Batch: false where the array is one event",
    )


def stored_in_vain(route: Route) -> Failure:
    """Return the failure of a stored value whose topic has no strategies any more."""
    if route.is_behind:
        return BEHIND
    return Failure(
        Reason.TOO_LARGE, "the topic's option oversize has no claim-check since a reload"
    )


def management_body(limit: int) -> Failure:
    """Return the failure of a body for the control plane, whose limit is not an option."""
    return Failure(Reason.TOO_LARGE, f"the body is over {limit} bytes")


def replay_request(why: str) -> Failure:
    """Return the failure of a replay that exceeds a registry record; `why` has the sizes."""
    advice = "ask for less, with fewer values in its filter or fewer partitions"
    return Failure(Reason.TOO_LARGE, f"{why}: {advice}")


def refused_by_kafka(size: int, limit: int) -> Failure:
    """Return the failure of a record that only the current limit in Kafka refuses."""
    detail = "Kafka refused the record: it is larger than the topic's max.message.bytes"
    return too_large(size, limit, "max.message.bytes")._replace(detail=detail)


def fits(route: Route, value_bytes: int, record_bytes: int) -> bool:
    """Return whether an event is within both limits of its topic.

    Kafka's limit applies to a batch after compression, so a record that fits uncompressed passes.

    Args:
        route: The route of the topic.
        value_bytes: The size of the value.
        record_bytes: The size of the record, as `record.size_of` bounds it.
    """
    return value_bytes <= route.max_value_bytes and record_bytes <= route.max_record_bytes


def exceeded(route: Route, value_bytes: int, record_bytes: int) -> Failure:
    """Return the failure of an event that exceeds a limit of its topic.

    While the spool has events of the topic, its strategies do not apply, so the refusal is
    temporary.
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


# ---- Largest parts of a JSON document


DOMINANT = 0.5  # a child with half of its parent's bytes is more useful than the parent
_MAX_STEPS = 64  # each step scans one value, so this bounds the work for hostile nesting


class Weight(NamedTuple):
    """A JSON Pointer, and the bytes of its value as sent."""

    path: str
    bytes: int


def heaviest(document: bytes, count: int = 5) -> list[Weight]:
    """Return the largest values of a document, the largest first, none inside another.

    The search descends into a value if one child has half of its bytes, and always into the root:
    for a deal with 600 options the result is `/options`, not the deal and not one option. The
    result is empty if the document is not JSON.
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
            # A name may contain a lone surrogate, which a response must show as an escape.
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
