"""What is too large, and by which limit: every 413 of an event says it in these words."""

from headgate.core.outcome import Failure, Reason
from headgate.core.topics.route import Route


def too_large(size: int, limit: int, name: str) -> Failure:
    """size and limit in bytes; name: which limit (`max_bytes`, `max.message.bytes`, ...)."""
    detail = f"{size} bytes are more than the limit of {limit} bytes ({name})"
    figures = {"size_bytes": size, "limit_bytes": limit, "limit": name}
    return Failure(Reason.TOO_LARGE, detail, figures)


def unread(detail: str, limit: int | None = None, name: str = "") -> Failure:
    """The same where reading ended at the limit, so that the size is not known."""
    figures = None if limit is None else {"limit_bytes": limit, "limit": name}
    return Failure(Reason.TOO_LARGE, detail, figures)


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
    """Which limit of its topic an event exceeds: one of the two."""
    if value_bytes > route.max_value_bytes:
        failure = too_large(value_bytes, route.max_value_bytes, "max_bytes")
    else:
        failure = too_large(record_bytes, route.max_record_bytes, "max.message.bytes")
    if not route.strategies:
        return failure
    detail = f"{failure.detail}, and does not fit by any of: {', '.join(route.strategies)}"
    return failure._replace(detail=detail)
