"""What the control plane shows of producers and topics: plain functions from figures to JSON."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from headgate.core.coalescing.held import held_topic
from headgate.core.coalescing.holding import is_held
from headgate.core.suppression import TopicSuppression
from headgate.core.topics.policy import TopicPolicy
from headgate.core.topics.topic import TopicState
from headgate.edge.management import view_parts
from headgate.edge.management.view_parts import TOP_KEYS, Json
from headgate.metrics.fleet import Rates
from headgate.metrics.snapshot import Pair, Snapshot, recent

_TOP_KEYS_LISTED = 3


class ViewInput(NamedTuple):
    """What is known now. policies, suppression: by topic.  now: seconds since 1970."""

    figures: Snapshot
    rates: Rates
    policies: Mapping[str, TopicPolicy]
    suppression: Mapping[str, TopicSuppression]
    now: float

    def suppressed(self, topic: str) -> Json | None:
        """See `view_parts.suppression_state`; None also of a topic that is not there (any more)."""
        policy = self.policies.get(topic)
        return (
            None if policy is None else view_parts.suppression_state(policy, self.suppression.get(topic))
        )


def producer_names(seen: ViewInput, configured: Iterable[str]) -> list[str]:
    """All producers that are configured or were seen, by name."""
    return sorted({*configured, *(pair.producer for pair in seen.figures.details)})


def producers(names: Iterable[str], seen: ViewInput) -> list[Json]:
    """These producers."""
    return [_producer(name, seen, _TOP_KEYS_LISTED) for name in names]


def producer(name: str, seen: ViewInput) -> Json:
    """One producer with its topics, top keys and recent rejects."""
    page = _producer(name, seen, TOP_KEYS)
    for topic_page in page["topics"]:
        detail = seen.figures.details[Pair(name, topic_page["topic"])]
        topic_page["recent_rejects"] = [
            view_parts.rejected_event(each) for each in reversed(detail.rejects)
        ]
    return page


def _producer(name: str, seen: ViewInput, keys: int) -> Json:
    figures = seen.figures
    pairs = sorted(pair for pair in figures.details if pair.producer == name)
    last = view_parts.latest_event(figures.details[pair] for pair in pairs)
    rate = view_parts.summed_rates(seen.rates.rate(pair) for pair in pairs)
    window = view_parts.merged_windows((figures.details[pair] for pair in pairs), seen.now)
    return {
        "producer": name,
        "events_per_s": round(rate.events, 3),
        "bytes_per_s": round(rate.bytes, 1),
        "last_seen": view_parts.iso(last),
        "received_total": _received(figures, pairs),
        "events_total": _totals(figures, pairs),
        "bytes_saved_total": _saved(figures, pairs),
        "ratios": view_parts.outcome_ratios(window),
        "oversize": view_parts.oversize_actions(window),
        "topics": [{"topic": pair.topic} | _pair(pair, seen, keys) for pair in pairs],
    }


def _pair(pair: Pair, seen: ViewInput, keys: int) -> Json:
    detail = seen.figures.details[pair]
    rate = seen.rates.rate(pair)
    window = recent(detail, seen.now)
    return {
        "events_per_s": round(rate.events, 3),
        "bytes_per_s": round(rate.bytes, 1),
        "last_seen": view_parts.iso(detail.last_seen),
        "received_total": _received(seen.figures, (pair,)),
        "events_total": _totals(seen.figures, (pair,)),
        "bytes_saved_total": _saved(seen.figures, (pair,)),
        "suppression": seen.suppressed(pair.topic),
        "window": view_parts.window_totals(window, seen.now),
        "size_bytes": view_parts.size_quantiles(window.sketched),
        "ratios": view_parts.outcome_ratios(window),
        "oversize": view_parts.oversize_actions(window),
        "keys": view_parts.key_figures(window.sketched, keys),
    }


def topics(names: Iterable[str], states: Mapping[str, TopicState], seen: ViewInput) -> list[Json]:
    """These topics, each of which a policy matches."""
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
    """One topic: policy in force, what Kafka says, rates, sizes, keys and skew."""
    figures = seen.figures
    pairs = sorted(pair for pair in figures.details if pair.topic == state.name)
    window = view_parts.merged_windows((figures.details[pair] for pair in pairs), seen.now)
    rate = view_parts.summed_rates(seen.rates.rate(pair) for pair in pairs)
    return {
        "topic": state.name,
        "policy": view_parts.policy_options(policy),
        "partitions": state.partitions,
        "kafka": {
            "cluster": state.cluster,
            "max_message_bytes": state.max_message_bytes,
            "cleanup_policy": state.cleanup_policy,
            "retention_ms": state.retention_ms,
            "replication_factor": state.replication_factor,
            "min_insync_replicas": state.min_insync_replicas,
        },
        "events_per_s": round(rate.events, 3),
        "bytes_per_s": round(rate.bytes, 1),
        "producers": [pair.producer for pair in pairs],
        "held": view_parts.held_figures(figures, state.name) if is_held(policy, held) else None,
        "suppression": view_parts.suppression_state(policy, seen.suppression.get(state.name)),
        "window": view_parts.window_totals(window, seen.now),
        "size_bytes": view_parts.size_quantiles(window.sketched),
        "ratios": view_parts.outcome_ratios(window),
        "keys": view_parts.key_figures(window.sketched, keys),
        "skew": view_parts.partition_skew(window.sketched, state.partitions),
    }


def _received(figures: Snapshot, pairs: Iterable[Pair]) -> Json:
    """What was posted, each event once, however often it is in `events_total`."""
    found = figures.histograms.get("headgate_event_bytes", {})
    every = [found[pair] for pair in pairs if pair in found]
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
    """Bytes of values that were not published: unchanged or superseded."""
    saved = figures.counters.get("headgate_suppressed_bytes_total", {})
    return sum(int(saved.get(pair, 0)) for pair in pairs)


def spool(figures: Snapshot, state: Mapping[str, object] | None) -> Json:
    """What waits on disk. state: of the dependency; None where no spool is configured."""
    gauges, counters = figures.gauges, figures.counters
    events, sizes, ages, *totals = (
        {labels[0]: value for labels, value in table.get(f"headgate_spool_{name}", {}).items()}
        for table, name in (
            (gauges, "events"),
            (gauges, "bytes"),
            (gauges, "oldest_seconds"),
            (counters, "drained_total"),
            (counters, "repeated_total"),
            (counters, "aside_total"),
        )
    )
    names = sorted({*events, *(name for one in totals for name in one)})
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
