"""Who sends what, how much of it is new, and what is refused."""

from headgate_dashboards.board import (
    PRODUCER,
    TOPIC,
    Board,
    Form,
    Panel,
    Query,
    Row,
    Unit,
    bad_from,
)
from headgate_dashboards.queries import (
    OF_PAIR,
    increase_by,
    now,
    quantile,
    rate,
    rate_by,
    recorded,
)

_PAIR = "producer, topic"
_NAMES = "{{producer}} {{topic}}"
_OUTCOMES = "producer_topic_outcome:headgate_events:ratio_rate5m"


def _share(outcome: str) -> str:
    return now(_OUTCOMES, _PAIR, f'outcome="{outcome}",{OF_PAIR}')


def _of_producer(outcome: str) -> str:
    where = f'outcome="{outcome}",producer=~"$producer"'
    return recorded("producer_outcome:headgate_events:ratio_rate5m", where)


_TABLE = Row(
    "Producers and their topics",
    (
        Panel(
            "Last five minutes",
            "One row for each producer and topic; a topic's key share and keys are of the last "
            "hour or two. Many unchanged events or a large share of one key are worth a talk.",
            Unit.RATIO,
            "operate/control-plane#a-producer",
            (
                Query(
                    now("producer_topic:headgate_events:rate5m", _PAIR, OF_PAIR),
                    "events",
                    Unit.EVENTS_PER_S,
                ),
                Query(
                    now("producer_topic:headgate_event_bytes:rate5m", _PAIR, OF_PAIR),
                    "bytes",
                    Unit.BYTES_PER_S,
                ),
                Query(_share("unchanged"), "unchanged"),
                Query(_share("superseded"), "superseded"),
                Query(_share("rejected"), "rejected"),
                Query(
                    now("producer_topic:headgate_suppressed_bytes:ratio_rate5m", _PAIR, OF_PAIR),
                    "bytes not published",
                ),
                Query(now("headgate_top_key_share", _PAIR, OF_PAIR, "max"), "top key"),
                Query(now("headgate_key_cardinality", _PAIR, OF_PAIR, "max"), "keys", Unit.COUNT),
            ),
            Form.TABLE,
            width=24,
        ),
    ),
)
_SENT = Row(
    "Sent",
    (
        Panel(
            "Events",
            "Events of each producer, whatever became of them.",
            Unit.EVENTS_PER_S,
            "operate/control-plane#a-producer",
            rate_by("headgate_events_total", "producer", OF_PAIR),
            is_stacked=True,
        ),
        Panel(
            "Bytes",
            "Bytes of their values as the producer sent them.",
            Unit.BYTES_PER_S,
            "operate/control-plane#a-producer",
            rate_by("headgate_event_bytes_sum", "producer", OF_PAIR),
            is_stacked=True,
        ),
        Panel(
            "Size of large events (p99)",
            "One event of a hundred is larger. Read from buckets of powers of four.",
            Unit.BYTES,
            "publish/oversize",
            (Query(quantile(0.99, "headgate_event_bytes", "producer", OF_PAIR), "{{producer}}"),),
        ),
        Panel(
            "Sizes",
            "How many events are how large. Two bands far apart: two kinds of events in a topic.",
            Unit.BYTES,
            "publish/oversize",
            increase_by("headgate_event_bytes_bucket", "le", OF_PAIR),
            Form.HEAT,
            width=24,
        ),
    ),
)
_SPARED = Row(
    "What Kafka was spared",
    (
        Panel(
            "Unchanged events",
            "Share of a producer's events whose content was already the newest of their key. "
            "Much of it: the producer publishes after each save, changed or not.",
            Unit.RATIO,
            "publish/suppression",
            (Query(_of_producer("unchanged"), "{{producer}}"),),
        ),
        Panel(
            "Superseded events",
            "Share of a producer's events that a later one of their key replaced before they were "
            "published.",
            Unit.RATIO,
            "publish/coalescing",
            (Query(_of_producer("superseded"), "{{producer}}"),),
        ),
        Panel(
            "Bytes not published",
            "Share of the bytes sent that unchanged and superseded events had.",
            Unit.RATIO,
            "publish/suppression",
            (
                Query(
                    recorded("producer_topic:headgate_suppressed_bytes:ratio_rate5m", OF_PAIR),
                    _NAMES,
                ),
            ),
        ),
    ),
)
_REFUSED = Row(
    "What was refused",
    (
        Panel(
            "Rejected events",
            "Share of a producer's events that were rejected. They are not in Kafka.",
            Unit.RATIO,
            "operate/runbooks/gateway/producer-rejected",
            (Query(_of_producer("rejected"), "{{producer}}"),),
            steps=bad_from(0.5, 0.1),
            width=6,
        ),
        Panel(
            "Rejections by reason",
            "Why events were rejected; each reason says what to do.",
            Unit.EVENTS_PER_S,
            "reference/reasons",
            rate_by("headgate_events_total", "producer, reason", f'outcome="rejected",{OF_PAIR}'),
            width=6,
        ),
        Panel(
            "Refused by quota",
            "Events beyond the producer's quota, answered 429.",
            Unit.EVENTS_PER_S,
            "publish/answers#quotas",
            rate_by("headgate_quota_rejected_total", "producer", 'producer=~"$producer"'),
            width=6,
        ),
        Panel(
            "Too large",
            "Share of the events that are larger than their topic allows, whatever the oversize "
            "policy made of them.",
            Unit.RATIO,
            "publish/oversize",
            (Query(recorded("producer_topic:headgate_oversize:ratio_rate5m", OF_PAIR), _NAMES),),
            width=6,
        ),
    ),
)
_KEYS = Row(
    "Keys",
    (
        Panel(
            "Share of the most frequent key",
            "Of the events of the last one to two hours. No number of partitions spreads one key.",
            Unit.RATIO,
            "operate/runbooks/gateway/hot-key",
            (Query(now("headgate_top_key_share", _PAIR, OF_PAIR, "max"), _NAMES),),
            steps=bad_from(0.6, 0.3),
        ),
        Panel(
            "Different keys",
            "Estimated, in the last one to two hours.",
            Unit.COUNT,
            "publish/keys",
            (Query(now("headgate_key_cardinality", _PAIR, OF_PAIR, "max"), _NAMES),),
        ),
        Panel(
            "Events without a key",
            "Published unordered, on topics that allow it.",
            Unit.EVENTS_PER_S,
            "publish/keys",
            (Query(rate("headgate_keyless_total", _PAIR, OF_PAIR), _NAMES),),
        ),
    ),
)

PRODUCERS = Board(
    "producers",
    "Headgate / Producers",
    "Who sends what, how much of it is new, and what is refused?",
    (PRODUCER, TOPIC),
    (_TABLE, _SENT, _SPARED, _REFUSED, _KEYS),
)
