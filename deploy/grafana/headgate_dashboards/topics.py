"""What becomes of a topic's events: suppressed, coalesced, spooled, cut, published."""

from headgate_dashboards.board import (
    INSTANCE,
    TOPIC,
    Board,
    Form,
    Panel,
    Query,
    Row,
    Unit,
    bad_from,
)
from headgate_dashboards.queries import MINE, OF_TOPIC, now_by, rate, rate_by, recorded

_WHERE = f"{OF_TOPIC},{MINE}"


def _fullest(counter: str) -> tuple[Query, ...]:
    expr = f"topk(10, {rate(counter, 'topic, partition', _WHERE)})"
    return (Query(expr, "{{topic}} {{partition}}"),)


_TRAFFIC = Row(
    "Traffic",
    (
        Panel(
            "Events",
            "Events of each topic, whatever became of them.",
            Unit.EVENTS_PER_S,
            "operate/control-plane",
            rate_by("headgate_events_total", "topic", _WHERE),
            is_stacked=True,
        ),
        Panel(
            "Records in Kafka",
            "Records that Kafka acknowledged. More than events: split and chunks; fewer: what "
            "suppression and coalescing spare.",
            Unit.RECORDS_PER_S,
            "publish/answers",
            rate_by("headgate_acknowledged_records_total", "topic", _WHERE),
            is_stacked=True,
        ),
        Panel(
            "Fullest partitions",
            "Records a second of the ten partitions that get most. One far above the others of its "
            "topic: a hot key.",
            Unit.RECORDS_PER_S,
            "operate/runbooks/gateway/hot-key",
            _fullest("headgate_partition_records_total"),
        ),
        Panel(
            "Fullest partitions, bytes",
            "Bytes a second of the ten partitions that get most.",
            Unit.BYTES_PER_S,
            "operate/runbooks/gateway/hot-key",
            _fullest("headgate_partition_bytes_total"),
        ),
        Panel(
            "Outcomes",
            "Share of each outcome in a topic's events of the last five minutes.",
            Unit.RATIO,
            "publish/answers",
            (
                Query(
                    recorded("topic_outcome:headgate_events:ratio_rate5m", OF_TOPIC),
                    "{{topic}} {{outcome}}",
                ),
            ),
        ),
    ),
)
_SUPPRESSION = Row(
    "Suppression",
    (
        Panel(
            "Unchanged events",
            "Events that were not published because the log's newest record of their key has that "
            "content.",
            Unit.EVENTS_PER_S,
            "publish/suppression",
            rate_by("headgate_events_total", "topic", f'outcome="unchanged",{_WHERE}'),
        ),
        Panel(
            "Bytes not published",
            "Of unchanged and superseded events.",
            Unit.BYTES_PER_S,
            "publish/suppression",
            rate_by("headgate_suppressed_bytes_total", "topic", _WHERE),
        ),
        Panel(
            "Workers that suppress nothing",
            "Workers that see a topic in quarantine or Redis away. All its events are published.",
            Unit.COUNT,
            "operate/runbooks/gateway/nothing-suppressed",
            now_by("headgate_suppression_state", "topic, state", f'state!="on",{_WHERE}'),
            steps=bad_from(1),
        ),
        Panel(
            "Compared by bytes, not by value",
            "Events of canonical topics that are too large or no JSON: there a change of "
            "whitespace is a change.",
            Unit.EVENTS_PER_S,
            "publish/suppression#comparing-json-values",
            rate_by("headgate_canonical_fallbacks_total", "topic, reason", _WHERE),
        ),
        Panel(
            "Repeats by event id",
            "Events and requests that were done before and got their first answer again.",
            Unit.EVENTS_PER_S,
            "publish/idempotency",
            rate_by("headgate_events_total", "topic", f'outcome="duplicate",{_WHERE}'),
        ),
        Panel(
            "Audit events",
            "What became of the facts about events that left no record. Anything but written is "
            "missing in the skew audit.",
            Unit.EVENTS_PER_S,
            "operate/skew-audit#events-that-never-reached-kafka",
            rate_by("headgate_facts_total", "topic, result", _WHERE),
        ),
    ),
)
_COALESCING = Row(
    "Coalescing",
    (
        Panel(
            "Superseded events",
            "Held events that were not published because a later one of their key was.",
            Unit.EVENTS_PER_S,
            "publish/coalescing",
            rate_by("headgate_coalesced_total", "topic", OF_TOPIC),
        ),
        Panel(
            "Keys held",
            "Keys whose events wait until they are left alone.",
            Unit.COUNT,
            "publish/coalescing",
            now_by("headgate_held_keys", "topic", OF_TOPIC),
        ),
        Panel(
            "Memory of held events",
            "Within 20 %, of the coalescers together.",
            Unit.BYTES,
            "operate/coalescers",
            now_by("headgate_held_bytes", "topic", OF_TOPIC),
        ),
        Panel(
            "Age of the oldest held event",
            "It should stay near the topic's longest delay.",
            Unit.SECONDS,
            "operate/runbooks/gateway/held-events-wait",
            now_by("headgate_held_oldest_seconds", "topic", OF_TOPIC, "max"),
            steps=bad_from(60),
        ),
        Panel(
            "Held records to read",
            "Records of the held topic that the coalescers have not covered yet.",
            Unit.COUNT,
            "operate/runbooks/gateway/held-events-wait",
            now_by("headgate_held_lag", "topic", OF_TOPIC, "max"),
            steps=bad_from(100_000),
        ),
        Panel(
            "Coalescing restarted",
            "Owners of held partitions that began again because Kafka refused or did not answer.",
            Unit.COUNT,
            "operate/runbooks/gateway/coalescer-restarts",
            rate_by("headgate_coalescer_restarts_total", "topic, reason", OF_TOPIC),
        ),
    ),
)
_SPOOL = Row(
    "Spool",
    (
        Panel(
            "Events on disk",
            "Answered spooled, and not yet in Kafka.",
            Unit.COUNT,
            "operate/spool",
            now_by("headgate_spool_events", "topic", _WHERE),
        ),
        Panel(
            "Spool in use",
            "Share of spool.max_bytes. At 100 % events are answered 503 while Kafka is away.",
            Unit.RATIO,
            "operate/runbooks/gateway/spool-fills",
            (Query(recorded("instance:headgate_spool_bytes:ratio", MINE), "{{instance}}"),),
            steps=bad_from(0.9, 0.5),
        ),
        Panel(
            "Age of the oldest event on disk",
            "How long Kafka has been away, or how far the spool is from being empty.",
            Unit.SECONDS,
            "operate/runbooks/gateway/spool-waits",
            now_by("headgate_spool_oldest_seconds", "topic", _WHERE, "max"),
            steps=bad_from(600, 60),
        ),
        Panel(
            "Bytes on disk",
            "Of the events that wait, by topic.",
            Unit.BYTES,
            "operate/spool",
            now_by("headgate_spool_bytes", "topic", _WHERE),
        ),
        Panel(
            "Published from disk",
            "Spooled events that Kafka has acknowledged, and those handed over twice.",
            Unit.EVENTS_PER_S,
            "operate/spool#when-kafka-recovers",
            (
                Query(rate("headgate_spool_drained_total", "topic", _WHERE), "{{topic}}"),
                Query(rate("headgate_spool_repeated_total", "topic", _WHERE), "{{topic}} repeated"),
            ),
        ),
        Panel(
            "Set aside",
            "Spooled events that nobody publishes any more. Look at each of them.",
            Unit.COUNT,
            "operate/runbooks/gateway/spool-aside",
            now_by("headgate_spool_aside_total", "topic", _WHERE),
            steps=bad_from(1),
        ),
    ),
)
_OVERSIZE = Row(
    "Oversize",
    (
        Panel(
            "Too large, by what became of it",
            "A strategy of the topic's oversize policy, or reject.",
            Unit.EVENTS_PER_S,
            "publish/oversize#the-oversize-policy",
            rate_by("headgate_oversize_total", "topic, action", _WHERE),
            width=12,
        ),
        Panel(
            "Sizes",
            "How many events are how large.",
            Unit.BYTES,
            "publish/oversize",
            rate_by("headgate_event_bytes_bucket", "le", _WHERE),
            Form.HEAT,
            width=12,
        ),
    ),
)

TOPICS = Board(
    "topics",
    "Headgate / Topics",
    "What becomes of a topic's events: suppressed, coalesced, spooled, cut, published?",
    (INSTANCE, TOPIC),
    (_TRAFFIC, _SUPPRESSION, _COALESCING, _SPOOL, _OVERSIZE),
)
