"""Kafka as the gateways see it: are there brokers, how fast do they answer, what waits for them?"""

from headgate_dashboards.board import (
    INSTANCE,
    TOPIC,
    Board,
    Form,
    Panel,
    Query,
    Row,
    Unit,
    Variable,
    bad_below,
    bad_from,
)
from headgate_dashboards.queries import (
    MINE,
    OF_CLUSTER,
    OF_TOPIC,
    increase_by,
    now_by,
    quantiles,
    rate_by,
    recorded,
)

_CLUSTER = Variable("cluster", "headgate_cluster_partitions")
_WHERE = f"{OF_TOPIC},{MINE}"
_OURS = 'reason=~"kafka_unavailable|broker_refused|overloaded|internal"'

_BROKERS = Row(
    "Brokers",
    (
        Panel(
            "Reachable",
            "Whether every worker of a gateway reaches the cluster.",
            Unit.YES_NO,
            "operate/runbooks/gateway/kafka-unavailable",
            now_by(
                "headgate_dependency_up",
                "instance, dependency",
                f'dependency=~"kafka .*",{MINE}',
                "min",
            ),
            steps=bad_below(1),
        ),
        Panel(
            "Partitions in trouble",
            "As the monitor sees them. offline and below_min_isr: events are refused.",
            Unit.COUNT,
            "operate/runbooks/monitor/partitions-offline",
            now_by("headgate_cluster_partitions", "cluster, state", OF_CLUSTER, "max"),
            steps=bad_from(1),
        ),
        Panel(
            "Producers rebuilt",
            "Kafka producers of the gateways that were dropped after an error, by reason.",
            Unit.COUNT,
            "operate/runbooks/gateway/producer-rebuilt",
            increase_by(
                "headgate_producer_rebuilds_total",
                "cluster, reason",
                f"{OF_CLUSTER},{MINE}",
            ),
        ),
    ),
)
_PRODUCE = Row(
    "Produce",
    (
        Panel(
            "Acknowledgement",
            "From handing a batch of a lane to the producer to Kafka's acknowledgement.",
            Unit.SECONDS,
            "operate/sizing#kafka-and-redis",
            quantiles("headgate_ack_seconds", _WHERE),
        ),
        Panel(
            "Slowest hundredth by topic",
            "p99 of each topic's batches over five minutes, all gateways together.",
            Unit.SECONDS,
            "operate/sizing#kafka-and-redis",
            (Query(recorded("topic:headgate_ack_seconds:p99_rate5m", OF_TOPIC), "{{topic}}"),),
        ),
        Panel(
            "Records acknowledged",
            "By all in-sync replicas.",
            Unit.RECORDS_PER_S,
            "design/promises",
            rate_by("headgate_acknowledged_records_total", "topic", _WHERE),
            is_stacked=True,
        ),
        Panel(
            "Acknowledgement, all of it",
            "How many batches took how long. Two bands: some brokers are slower than others.",
            Unit.SECONDS,
            "operate/sizing#kafka-and-redis",
            rate_by("headgate_ack_seconds_bucket", "le", _WHERE),
            Form.HEAT,
            width=24,
        ),
    ),
)
_LANES = Row(
    "Lanes",
    (
        Panel(
            "Events that wait by topic",
            "In the lanes of a topic or with the producer.",
            Unit.COUNT,
            "operate/overload",
            now_by("headgate_lane_depth", "topic", _WHERE),
        ),
        Panel(
            "Deepest lane of a topic",
            "Events that wait for one partition. Far above the others: a hot key, or one broker.",
            Unit.COUNT,
            "operate/runbooks/gateway/hot-key",
            now_by("headgate_lane_depth", "topic", _WHERE, "max"),
        ),
        Panel(
            "Who fills the queue",
            "Share of each topic in all that waits.",
            Unit.RATIO,
            "operate/overload#find-a-flooding-producer",
            (Query(recorded("topic:headgate_lane_depth:ratio", OF_TOPIC), "{{topic}}"),),
        ),
        Panel(
            "Bytes in flight",
            "Admitted and not yet answered.",
            Unit.BYTES,
            "operate/overload",
            now_by("headgate_in_flight_bytes", "instance"),
            width=12,
        ),
        Panel(
            "Events in flight",
            "Admitted and not yet answered.",
            Unit.COUNT,
            "operate/overload",
            now_by("headgate_in_flight_events", "instance"),
            width=12,
        ),
    ),
)
_FAILED = Row(
    "What fails",
    (
        Panel(
            "Outcome unknown",
            "Events whose end was not known at the deadline: they may be in Kafka or not.",
            Unit.EVENTS_PER_S,
            "operate/runbooks/gateway/unknown-outcomes",
            rate_by("headgate_unknown_outcome_total", "topic", _WHERE),
            steps=bad_from(0.001),
            width=12,
        ),
        Panel(
            "Refused because the gateway or Kafka fails",
            "They are not written; producers try them again.",
            Unit.EVENTS_PER_S,
            "operate/runbooks/gateway/events-refused",
            rate_by("headgate_events_total", "topic, reason", f"{_OURS},{_WHERE}"),
            steps=bad_from(0.001),
            width=12,
        ),
    ),
)

KAFKA = Board(
    "kafka",
    "Headgate / Kafka",
    "Kafka as the gateways see it: is it there, how fast does it answer, and what waits for it?",
    (INSTANCE, TOPIC, _CLUSTER),
    (_BROKERS, _PRODUCE, _LANES, _FAILED),
)
