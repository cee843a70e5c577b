"""Can the gateways use Redis, and what do they do without it?"""

from headgate_dashboards.board import (
    INSTANCE,
    TOPIC,
    Board,
    Panel,
    Query,
    Row,
    Unit,
    bad_below,
    bad_from,
)
from headgate_dashboards.queries import MINE, OF_TOPIC, now_by, rate_by, recorded

_WHERE = f"{OF_TOPIC},{MINE}"

_SERVERS = Row(
    "Servers",
    (
        Panel(
            "Reachable",
            "Whether every worker reaches it and gets answers in time; each of several servers by "
            "its name.",
            Unit.YES_NO,
            "operate/runbooks/gateway/redis-unavailable",
            now_by(
                "headgate_dependency_up",
                "instance, dependency",
                f'dependency=~"redis.*",{MINE}',
                "min",
            ),
            steps=bad_below(1),
            width=12,
        ),
        Panel(
            "Topics by state of suppression",
            "Workers and topics. on: suppression is active; quarantine: all events are published "
            "because the state in Redis may be incomplete; away: Redis does not answer.",
            Unit.COUNT,
            "operate/runbooks/gateway/nothing-suppressed",
            now_by("headgate_suppression_state", "state", _WHERE),
            width=12,
            is_stacked=True,
        ),
    ),
)
_EFFECT = Row(
    "What it does",
    (
        Panel(
            "Unchanged events",
            "Share of a topic's events that were not published. A fall to 0 with the same traffic "
            "means that Redis is empty or away.",
            Unit.RATIO,
            "publish/suppression",
            (
                Query(
                    recorded(
                        "topic_outcome:headgate_events:ratio_rate5m",
                        f'outcome="unchanged",{OF_TOPIC}',
                    ),
                    "{{topic}}",
                ),
            ),
        ),
        Panel(
            "Repeats recognised",
            "Events with a known id, and requests with a known Idempotency-Key.",
            Unit.EVENTS_PER_S,
            "publish/idempotency",
            rate_by("headgate_events_total", "topic", f'outcome="duplicate",{_WHERE}'),
        ),
        Panel(
            "Refused because Redis is not available",
            'Events of topics with redis_loss = "refuse".',
            Unit.EVENTS_PER_S,
            "operate/runbooks/gateway/redis-unavailable",
            rate_by("headgate_events_total", "topic", f'reason="redis_unavailable",{_WHERE}'),
            steps=bad_from(0.001),
        ),
    ),
)
_WITHOUT = Row(
    "What goes on without it",
    (
        Panel(
            "Published without suppression",
            "Events of suppressing topics for which Redis was not asked, by reason. They may be "
            "duplicates.",
            Unit.EVENTS_PER_S,
            "operate/runbooks/gateway/suppression-bypassed",
            rate_by("headgate_suppression_bypassed_total", "reason"),
            steps=bad_from(0.001),
            width=12,
        ),
        Panel(
            "Repeats that may pass",
            "Requests and events with an id that went on without asking Redis, by reason.",
            Unit.EVENTS_PER_S,
            "operate/runbooks/gateway/identity-bypassed",
            rate_by("headgate_identity_bypassed_total", "reason"),
            steps=bad_from(0.001),
            width=12,
        ),
    ),
)

REDIS = Board(
    "redis",
    "Headgate / Redis",
    "Can the gateways use Redis, and what do they do without it?",
    (INSTANCE, TOPIC),
    (_SERVERS, _EFFECT, _WITHOUT),
)
