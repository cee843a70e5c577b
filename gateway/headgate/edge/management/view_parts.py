"""Parts of the control plane's answers: sizes, ratios, keys and skew of what producers posted."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from headgate.core.keys import partition_for
from headgate.core.outcome import Name, Reason
from headgate.core.suppression import OFF, TopicSuppression
from headgate.core.topics.policy import TopicPolicy
from headgate.metrics import sketches
from headgate.metrics.fleet import Volume
from headgate.metrics.sketches import EMPTY, HeavyKey, Sketched
from headgate.metrics.snapshot import (
    WINDOW_S,
    Detail,
    ProducerHour,
    Reject,
    Snapshot,
    merge_windows,
    recent,
)

TOP_KEYS = 20  # on the page of one producer or topic; lists show fewer

Json = dict[str, Any]


def policy_options(policy: TopicPolicy) -> Json:
    """The options in force; of the schema only its version, as records name it."""
    options = {name: getattr(policy, name) for name in policy.__slots__ if name != "schema"}
    version = None if policy.schema is None else policy.schema.version.decode()
    return {**options, "schema_version": version}


def suppression_state(policy: TopicPolicy, now: TopicSuppression | None) -> Json | None:
    """Whether the topic is suppressed now; None: its events are compared by nobody here, because
    its coalescers run apart, or no worker has told of it yet.
    """
    if policy.suppress == "off":
        return {"state": OFF, "until_s": None}
    if now is None:
        return None
    until_s = None if now.until_s is None else round(now.until_s, 1)
    return {"state": now.state, "until_s": until_s}


def outcome_ratios(window: ProducerHour) -> Json:
    """Shares (0 to 1) of the window's events; republish = unchanged.

    Of events that were held it counts what became of them, not that they were held.
    """
    by_outcome = dict(window.coalesced)
    for (outcome, _), count in window.ends.items():
        if outcome != Name.HELD:
            by_outcome[outcome] = by_outcome.get(outcome, 0) + count
    total = sum(by_outcome.values())

    def share(count: int) -> float:
        return round(count / total, 4) if total else 0.0

    shares = {str(name): share(by_outcome.get(name, 0)) for name in Name if name != Name.HELD}
    return shares | {"oversize": share(sum(oversize_actions(window).values()))}


def oversize_actions(window: ProducerHour) -> dict[str, int]:
    """What became of events that were too large: the strategy that took them, or reject."""
    rejected = sum(
        count for (_, reason), count in window.ends.items() if reason == Reason.TOO_LARGE
    )
    return window.oversize | ({"reject": rejected} if rejected else {})


def held_figures(figures: Snapshot, topic: str) -> Json:
    """What is held of a coalescing topic: keys, bytes and age in the partitions that this instance
    owns (null: it owns none), lag of the whole group in records."""

    def gauge(name: str) -> float | None:
        return figures.gauges.get(f"headgate_held_{name}", {}).get((topic,))

    keys, size, oldest_s, lag = map(gauge, ("keys", "bytes", "oldest_seconds", "lag"))
    return {
        "keys": None if keys is None else int(keys),
        "bytes": None if size is None else int(size),
        "oldest_s": None if oldest_s is None else round(oldest_s, 3),
        "lag": None if lag is None else int(lag),
    }


def partition_skew(sketched: Sketched, partitions: int) -> Json:
    """How uneven the bytes of the posted keys make the partitions, and what more would bring.

    No layout can take the heaviest key apart, so at most 1 / (its share) partitions are useful.
    """
    total = sketches.keyed_bytes(sketched)
    hot = sketches.top_bytes(sketched, TOP_KEYS) if total else []
    if not hot:
        return {"judged": False}
    loads = [0.0] * partitions
    for key, weight in hot:
        loads[partition_for(key.encode(), partitions)] += weight
    rest = max(0.0, total - sum(loads)) / partitions  # the many light keys spread evenly
    heaviest = max(range(partitions), key=loads.__getitem__)
    return {
        "judged": True,
        "top_key_bytes_share": _share(hot[0].weight, total),
        "hottest_partition": heaviest,
        "hottest_partition_share": _share(loads[heaviest] + rest, total),
        "even_share": round(1 / partitions, 4),
        "useful_partitions_at_most": max(1, total // hot[0].weight),
    }


def key_figures(sketched: Sketched, count: int) -> Json:
    events, size = sketches.keyed_events(sketched), sketches.keyed_bytes(sketched)
    return {
        "cardinality": sketches.cardinality(sketched),
        "top_by_events": _hot(sketches.top_events(sketched, count), "events", events),
        "top_by_bytes": _hot(sketches.top_bytes(sketched, count), "bytes", size),
    }


def _hot(keys: list[HeavyKey], unit: str, total: int) -> list[Json]:
    return [
        {"key": key, unit: weight, "share": _share(weight, total)} for key, weight in keys if total
    ]


def _share(part: float, total: float) -> float:
    return round(min(1.0, part / total), 4)


def size_quantiles(sketched: Sketched) -> Json | None:
    sizes = sketches.quantiles(sketched)
    return None if sizes is None else sizes._asdict()


def window_totals(window: ProducerHour, now: float) -> Json:
    since = (now // WINDOW_S - 1) * WINDOW_S
    return {"since": iso(since), "events": sum(window.ends.values()), "bytes": window.bytes}


def merged_windows(details: Iterable[Detail], now: float) -> ProducerHour:
    merged = ProducerHour({}, 0, EMPTY)
    for detail in details:
        merged = merge_windows(merged, recent(detail, now))
    return merged


def latest_event(details: Iterable[Detail]) -> float:
    return max((detail.last_seen for detail in details), default=0.0)


def summed_rates(volumes: Iterable[Volume]) -> Volume:
    events, size = 0.0, 0.0
    for volume in volumes:
        events += volume.events
        size += volume.bytes
    return Volume(events, size)


def rejected_event(reject: Reject) -> Json:
    return {
        "at": iso(reject.at),
        "outcome": reject.outcome,
        "reason": reject.reason,
        "detail": reject.detail,
        "size_bytes": reject.size,
        "key": reject.key,
        "request_id": reject.request_id or None,
    }


def iso(at: float) -> str | None:
    if at <= 0:
        return None
    text = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
