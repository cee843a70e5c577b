"""Views of producers, topics and the spool: plain functions from figures to JSON."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from headgate.metrics import sketches
from headgate.metrics.fleet import Rates
from headgate.metrics.sketches import EMPTY, HeavyKey, Sketched
from headgate.metrics.snapshot import (
    WINDOW_S,
    Pair,
    ProducerHour,
    Reject,
    Snapshot,
    merge_windows,
    recent,
)
from headgate.model.internal_topics import held_topic, is_held
from headgate.model.keys import partition_for
from headgate.model.outcome import OutcomeName, Reason
from headgate.model.policy import TopicPolicy
from headgate.model.suppression_states import OFF, TopicSuppression
from headgate.model.topics import TopicState

_HASH_SHOWN = 8  # digits of a token's hash: enough to tell a producer's tokens apart
TOP_KEYS = 20  # on the page of one producer or topic; lists show fewer

Json = dict[str, Any]


def policy_options(policy: TopicPolicy) -> Json:
    """Return the active options; of the schema only its version, as records name it."""
    options = {name: getattr(policy, name) for name in policy.__slots__ if name != "schema"}
    version = None if policy.schema is None else policy.schema.version.decode()
    return {**options, "schema_version": version}


def suppression_state(policy: TopicPolicy, state: TopicSuppression | None) -> Json | None:
    """Return the topic's current suppression state.

    None if no worker compares its events because its coalescers run as separate processes, or if
    no worker has reported its state yet.
    """
    if policy.suppress == "off":
        return {"state": OFF, "until_s": None}
    if state is None:
        return None
    until_s = None if state.until_s is None else round(state.until_s, 1)
    return {"state": state.state, "until_s": until_s}


def outcome_ratios(window: ProducerHour) -> Json:
    """Return the shares (0 to 1) of the window's events by outcome.

    Held events count by their final outcome, not as held.
    """
    by_outcome = dict(window.coalesced)
    for (outcome, _), count in window.ends.items():
        if outcome != OutcomeName.HELD:
            by_outcome[outcome] = by_outcome.get(outcome, 0) + count
    total = sum(by_outcome.values())

    def share(count: int) -> float:
        return round(count / total, 4) if total else 0.0

    shares = {
        str(name): share(by_outcome.get(name, 0))
        for name in OutcomeName
        if name != OutcomeName.HELD
    }
    return shares | {"oversize": share(sum(oversize_actions(window).values()))}


def oversize_actions(window: ProducerHour) -> dict[str, int]:
    """Count oversize events by the strategy that took them, or reject."""
    rejected = sum(
        count for (_, reason), count in window.ends.items() if reason == Reason.TOO_LARGE
    )
    return window.oversize | ({"reject": rejected} if rejected else {})


def held_figures(figures: Snapshot, topic: str) -> Json:
    """Return the figures of a coalescing topic's held events.

    Keys, bytes and age are those of the partitions that this instance owns; null if it owns none.
    The lag is the whole group's, in records.
    """

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
    """Return the skew of the partitions by bytes of the posted keys.

    One key is always on one partition, so at most 1 / (share of the heaviest key) partitions are
    useful.
    """
    total = sketches.keyed_bytes(sketched)
    hot = sketches.top_bytes(sketched, TOP_KEYS) if total else []
    if not hot:
        return {"judged": False}
    loads = [0.0] * partitions
    for key, weight in hot:
        loads[partition_for(key.encode(), partitions)] += weight
    rest = max(0.0, total - sum(loads)) / partitions  # the light keys are spread evenly
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


def window_totals(window: ProducerHour, now_s: float) -> Json:
    since = (now_s // WINDOW_S - 1) * WINDOW_S
    return {"since": iso(since), "events": sum(window.ends.values()), "bytes": window.bytes}


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


# ---- the pages


_TOP_KEYS_LISTED = 3


class ViewInput(NamedTuple):
    """Input of the views.

    Attributes:
        figures: Figures of all workers.
        rates: Rates of the last minute.
        policies: Policies by topic.
        suppression: Suppression states by topic.
        now_s: Current time, in seconds since 1970.
        tokens: Hashes of tokens by producer; empty if tokens are not in use.
        tokens_since_s: Begin of the record of their uses, in seconds since 1970.
    """

    figures: Snapshot
    rates: Rates
    policies: Mapping[str, TopicPolicy]
    suppression: Mapping[str, TopicSuppression]
    now_s: float
    tokens: Mapping[str, Sequence[str]]
    tokens_since_s: float

    def suppressed(self, topic: str) -> Json | None:
        """Return the topic's `suppression_state`; None also if the topic does not exist."""
        policy = self.policies.get(topic)
        return None if policy is None else suppression_state(policy, self.suppression.get(topic))


def producer_names(seen: ViewInput, configured: Iterable[str]) -> list[str]:
    """List the producers that are configured or were seen, by name."""
    return sorted({*configured, *(pair.producer for pair in seen.figures.details)})


def producers(names: Iterable[str], seen: ViewInput) -> list[Json]:
    """Return the pages of these producers."""
    return [_producer(name, seen, _TOP_KEYS_LISTED) for name in names]


def producer(name: str, seen: ViewInput) -> Json:
    """Return one producer with its topics, top keys and recent rejects."""
    page = _producer(name, seen, TOP_KEYS)
    for topic_page in page["topics"]:
        detail = seen.figures.details[Pair(name, topic_page["topic"])]
        topic_page["recent_rejects"] = [rejected_event(each) for each in reversed(detail.rejects)]
    return page


def _producer(name: str, seen: ViewInput, keys: int) -> Json:
    pairs = sorted(pair for pair in seen.figures.details if pair.producer == name)
    window = _window(pairs, seen)
    return {
        "producer": name,
        **_counts(pairs, seen),
        "ratios": outcome_ratios(window),
        "oversize": oversize_actions(window),
        "tokens": [_token(digest.lower(), seen) for digest in seen.tokens.get(name, ())],
        "tokens_since": iso(seen.tokens_since_s),
        "topics": [{"topic": pair.topic} | _pair(pair, seen, keys) for pair in pairs],
    }


def _token(digest: str, seen: ViewInput) -> Json:
    last_used = iso(seen.figures.tokens.get(digest, 0.0))
    return {"sha256_prefix": digest[:_HASH_SHOWN], "last_used": last_used}


def _pair(pair: Pair, seen: ViewInput, keys: int) -> Json:
    window = _window((pair,), seen)
    return {
        **_counts((pair,), seen),
        "suppression": seen.suppressed(pair.topic),
        "window": window_totals(window, seen.now_s),
        "size_bytes": size_quantiles(window.sketched),
        "ratios": outcome_ratios(window),
        "oversize": oversize_actions(window),
        "keys": key_figures(window.sketched, keys),
    }


def _window(pairs: Iterable[Pair], seen: ViewInput) -> ProducerHour:
    """Return the recent figures of these pairs together."""
    merged = ProducerHour({}, 0, EMPTY)
    for pair in pairs:
        merged = merge_windows(merged, recent(seen.figures.details[pair], seen.now_s))
    return merged


def _rates(pairs: Iterable[Pair], seen: ViewInput) -> Json:
    rates = [seen.rates.rate(pair) for pair in pairs]
    return {
        "events_per_s": round(sum(rate.events for rate in rates), 3),
        "bytes_per_s": round(sum(rate.bytes for rate in rates), 1),
    }


def _counts(pairs: Collection[Pair], seen: ViewInput) -> Json:
    """Return the rates of these pairs together, and their totals since the start."""
    figures = seen.figures
    last = max((figures.details[pair].last_seen for pair in pairs), default=0.0)
    return {
        **_rates(pairs, seen),
        "last_seen": iso(last),
        "received_total": _received(figures, pairs),
        "events_total": _totals(figures, pairs),
        "bytes_saved_total": _saved(figures, pairs),
    }


def topics(names: Iterable[str], states: Mapping[str, TopicState], seen: ViewInput) -> list[Json]:
    """Return the pages of these topics, each of which a policy matches."""
    return [
        topic(
            states[name], seen.policies[name], states.get(held_topic(name)), seen, _TOP_KEYS_LISTED
        )
        for name in names
    ]


def topic(
    state: TopicState,
    policy: TopicPolicy,
    held: TopicState | None,
    seen: ViewInput,
    keys: int = TOP_KEYS,
) -> Json:
    """Return one topic: policy, facts from Kafka, rates, sizes, keys and skew."""
    figures = seen.figures
    pairs = sorted(pair for pair in figures.details if pair.topic == state.name)
    window = _window(pairs, seen)
    return {
        "topic": state.name,
        "policy": policy_options(policy),
        "partitions": state.partitions,
        "kafka": {
            "cluster": state.cluster,
            "max_message_bytes": state.max_message_bytes,
            "cleanup_policy": state.cleanup_policy,
            "retention_ms": state.retention_ms,
            "replication_factor": state.replication_factor,
            "min_insync_replicas": state.min_insync_replicas,
        },
        **_rates(pairs, seen),
        "producers": [pair.producer for pair in pairs],
        "held": held_figures(figures, state.name) if is_held(policy, held) else None,
        "suppression": suppression_state(policy, seen.suppression.get(state.name)),
        "window": window_totals(window, seen.now_s),
        "size_bytes": size_quantiles(window.sketched),
        "ratios": outcome_ratios(window),
        "keys": key_figures(window.sketched, keys),
        "skew": partition_skew(window.sketched, state.partitions),
    }


def _received(figures: Snapshot, pairs: Iterable[Pair]) -> Json:
    """Count posted events, each once, even if `events_total` counts it several times."""
    histograms = figures.histograms.get("headgate_event_bytes", {})
    every = [histograms[pair] for pair in pairs if pair in histograms]
    events = sum(sum(buckets.counts) for buckets in every)
    return {"events": events, "bytes": int(sum(buckets.sum for buckets in every))}


def _totals(figures: Snapshot, pairs: Collection[Pair]) -> Json:
    totals: dict[str, int] = {}
    for labels, count in figures.counters.get("headgate_events_total", {}).items():
        if labels[:2] in pairs:
            name = f"{labels[2]}:{labels[3]}" if labels[3] else labels[2]
            totals[name] = totals.get(name, 0) + int(count)
    return totals


def _saved(figures: Snapshot, pairs: Iterable[Pair]) -> int:
    """Return the bytes of values that were not published: unchanged or superseded."""
    saved = figures.counters.get("headgate_suppressed_bytes_total", {})
    return sum(int(saved.get(pair, 0)) for pair in pairs)


def spool(figures: Snapshot, state: Mapping[str, object] | None) -> Json:
    """Return the figures of the spool.

    Args:
        figures: Figures of all workers.
        state: State of the dependency; None without a spool.
    """
    gauges, counters = figures.gauges, figures.counters
    events, sizes, ages, *totals = (
        {
            labels[0]: value if name == "oldest_seconds" else round(value)
            for labels, value in table.get(f"headgate_spool_{name}", {}).items()
        }
        for table, name in (
            (gauges, "events"),
            (gauges, "bytes"),
            (gauges, "oldest_seconds"),
            (counters, "drained_total"),
            (counters, "repeated_total"),
            (counters, "aside_total"),
        )
    )
    names = sorted({*events, *(name for total in totals for name in total)})
    drained, repeated, aside = totals
    return {
        "state": None if state is None else {"ok": state["ok"], "detail": state["detail"]},
        "events": sum(events.values()),
        "bytes": sum(sizes.values()),
        "oldest_s": round(max(ages.values(), default=0.0), 3),
        "topics": [
            {
                "topic": name,
                "events": events.get(name, 0),
                "bytes": sizes.get(name, 0),
                "oldest_s": round(ages.get(name, 0.0), 3),
                "drained_total": drained.get(name, 0),
                "repeated_total": repeated.get(name, 0),
                "aside_total": aside.get(name, 0),
            }
            for name in names
        ],
    }
