"""Is it well, what comes in, and is there room for more?"""

from headgate_dashboards.board import (
    INSTANCE,
    Board,
    Form,
    Panel,
    Query,
    Row,
    Unit,
    bad_below,
    bad_from,
)
from headgate_dashboards.queries import (
    MINE,
    increase,
    now,
    now_by,
    quantiles,
    rate,
    rate_by,
    recorded,
)

_FIRING = 'count by (severity) (ALERTS{alertname=~"Headgate.*",alertstate="firing"})'
_WANTED = now("headgate_workers", where=f'state="wanted",{MINE}')
_UP = now("headgate_workers", where=f'state="up",{MINE}')
_EXPIRY = "headgate_certificate_expiry_timestamp_seconds"
_BUILD = (
    f"headgate_build_info{{{MINE}}} * on (instance) group_left (native, hot_path)"
    f" headgate_native_info{{{MINE}}}"
)

_HEALTH = Row(
    "Health",
    (
        Panel(
            "Alerts",
            "Alerts of Headgate that fire now, by severity. Empty: none.",
            Unit.COUNT,
            "operate/runbooks/index",
            (Query(_FIRING, "{{severity}}"),),
            Form.STAT,
            bad_from(1),
            4,
        ),
        Panel(
            "Ready",
            "Share of the gateways that accept events.",
            Unit.RATIO,
            "operate/runbooks/gateway/gateway-not-ready",
            (Query(now("headgate_ready", fold="avg"), "ready"),),
            Form.STAT,
            bad_below(1),
            4,
        ),
        Panel(
            "Workers missing",
            "Worker processes that should run and do not. A dead one is back within seconds.",
            Unit.COUNT,
            "operate/runbooks/gateway/workers-missing",
            (Query(f"{_WANTED} - {_UP}", "missing"),),
            Form.STAT,
            bad_from(1),
            4,
        ),
        Panel(
            "Dependencies",
            "Whether every gateway reaches it.",
            Unit.YES_NO,
            "operate/monitor#health",
            now_by("headgate_dependency_up", "dependency", fold="min"),
            Form.STAT,
            bad_below(1),
            12,
        ),
    ),
)
_TRAFFIC = Row(
    "Traffic",
    (
        Panel(
            "Events by outcome",
            "What became of events. Kafka was spared those that are unchanged or superseded.",
            Unit.EVENTS_PER_S,
            "publish/answers",
            rate_by("headgate_events_total", "outcome"),
            is_stacked=True,
        ),
        Panel(
            "Rejected events by reason",
            "Most reasons are mistakes of producers. Those of the gateway, Kafka and Redis are "
            "overloaded, internal and all that end in unavailable.",
            Unit.EVENTS_PER_S,
            "reference/reasons",
            rate_by("headgate_events_total", "reason", f'outcome="rejected",{MINE}'),
            is_stacked=True,
        ),
        Panel(
            "Bytes",
            "Values as producers sent them, and those of unchanged and superseded events, which "
            "were not published.",
            Unit.BYTES_PER_S,
            "publish/suppression",
            (
                Query(rate("headgate_event_bytes_sum"), "received"),
                Query(rate("headgate_suppressed_bytes_total"), "not published"),
            ),
        ),
    ),
)
_REQUESTS = Row(
    "Requests",
    (
        Panel(
            "Latency",
            "From a request's head to its answer, with Kafka's acknowledgement in it.",
            Unit.SECONDS,
            "operate/sizing#is-it-enough",
            quantiles("headgate_request_seconds"),
            width=6,
        ),
        Panel(
            "Slowest hundredth by route",
            "p99 of each route's requests over five minutes, all gateways together.",
            Unit.SECONDS,
            "reference/http",
            (Query("route:headgate_request_seconds:p99_rate5m", "{{route}}"),),
            width=6,
        ),
        Panel(
            "Requests by status",
            "Answers by HTTP status. 207: a batch of which some events failed.",
            Unit.REQUESTS_PER_S,
            "publish/answers",
            rate_by("headgate_request_seconds_count", "status"),
            width=6,
            is_stacked=True,
        ),
        Panel(
            "Requests answered 5xx",
            "Share of the requests that failed because of the gateway, Kafka or Redis.",
            Unit.RATIO,
            "operate/runbooks/gateway/events-refused",
            (
                Query(
                    recorded("instance:headgate_requests_failed:ratio_rate5m", MINE), "{{instance}}"
                ),
            ),
            steps=bad_from(0.05, 0.01),
            width=6,
        ),
    ),
)
_ROOM = Row(
    "Room",
    (
        Panel(
            "In-flight budget in use",
            "Share of admission.in_flight_max_bytes and admission.in_flight_max_events. At 100 % "
            "events are answered 503 overloaded.",
            Unit.RATIO,
            "operate/overload",
            (
                Query(recorded("instance:headgate_in_flight_bytes:ratio", MINE), "{{instance}}"),
                Query(recorded("instance:headgate_in_flight_events:ratio", MINE), "{{instance}}"),
            ),
            steps=bad_from(0.9, 0.7),
        ),
        Panel(
            "CPU of a worker",
            "Share of one core that each worker uses on average; it cannot use more than one.",
            Unit.RATIO,
            "operate/sizing#is-it-enough",
            (Query(recorded("instance:headgate_worker_cpu:ratio_rate5m", MINE), "{{instance}}"),),
            steps=bad_from(0.9, 0.7),
        ),
        Panel(
            "Spans of traced requests",
            "What became of spans: exported, refused by the collector, dropped. None: tracing is "
            "off, or no request was sampled.",
            Unit.EVENTS_PER_S,
            "operate/tracing",
            rate_by("headgate_trace_spans_total", "result"),
        ),
        Panel(
            "Memory of the workers",
            "Resident memory of a gateway's workers together.",
            Unit.BYTES,
            "operate/sizing",
            now_by("headgate_worker_memory_bytes", "instance"),
        ),
        Panel(
            "Event loop stalls",
            "The longest time in the last minute for which a worker could do nothing else.",
            Unit.SECONDS,
            "operate/runbooks/gateway/event-loop-held-up",
            now_by("headgate_event_loop_stall_seconds", "instance", fold="max"),
            steps=bad_from(0.25, 0.05),
        ),
        Panel(
            "Tasks",
            "Of the workers' event loops: one for each open connection, and some dozens.",
            Unit.COUNT,
            "operate/overload#clients-that-are-slow-or-silent",
            now_by("headgate_worker_tasks", "instance"),
        ),
        Panel(
            "Restarts and reloads",
            "Workers that were started again because they had died; configurations, certificates "
            "and fetches of an issuer's keys by what became of them.",
            Unit.COUNT,
            "operate/configure#reload",
            (
                Query(increase("headgate_worker_restarts_total"), "workers restarted"),
                Query(
                    increase("headgate_config_reloads_total", "result"), "configuration {{result}}"
                ),
                Query(increase("headgate_tls_reloads_total", "result"), "certificate {{result}}"),
                Query(
                    increase("headgate_issuer_keys_fetches_total", "result"),
                    "issuer's keys {{result}}",
                ),
            ),
        ),
        Panel(
            "Certificates",
            "Until the certificate of a gateway, or of its chain, expires; only with TLS.",
            Unit.SECONDS,
            "operate/runbooks/gateway/certificate-expires",
            (Query(f"min by (instance) ({_EXPIRY}{{{MINE}}}) - time()", "{{instance}}"),),
            Form.STAT,
            bad_below(14 * 86_400),
            6,
        ),
        Panel(
            "What runs",
            "Gateways by version and build. native: c and hot_path: mypyc is the fast one.",
            Unit.COUNT,
            "operate/install#native-code",
            (Query(f"count by (version, python, native, hot_path) ({_BUILD})", "gateways"),),
            Form.TABLE,
            width=18,
        ),
    ),
)

OVERVIEW = Board(
    "overview",
    "Headgate / Overview",
    "Are all gateways well, what do they do, and how much room is left?",
    (INSTANCE,),
    (_HEALTH, _TRAFFIC, _REQUESTS, _ROOM),
)
