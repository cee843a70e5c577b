"""What a gateway says of itself: its processes, limits and dependencies, and what runs."""

from headgate.telemetry.metric import Metric, MetricKind

INSTANCE_METRICS = (
    Metric(
        "headgate_event_loop_stall_seconds",
        MetricKind.MAX,
        (),
        "Longest time in the last minute for which a worker's event loop was held up.",
    ),
    Metric(
        "headgate_worker_cpu_seconds_total",
        MetricKind.COUNTER,
        ("mode",),
        "CPU seconds of the workers, user and system.",
    ),
    Metric(
        "headgate_worker_memory_bytes",
        MetricKind.SUM,
        (),
        "Resident memory of the workers together.",
    ),
    Metric(
        "headgate_worker_tasks",
        MetricKind.SUM,
        (),
        "Tasks of the workers' event loops: one for each open connection, and some dozens.",
    ),
    Metric(
        "headgate_in_flight_limit_events",
        MetricKind.MAX,
        (),
        "Events that may be in flight (admission.in_flight_max_events); beyond them 503.",
    ),
    Metric(
        "headgate_in_flight_limit_bytes",
        MetricKind.MAX,
        (),
        "Bytes that may be in flight (admission.in_flight_max_bytes); beyond them 503.",
    ),
    Metric(
        "headgate_spool_limit_bytes",
        MetricKind.MAX,
        (),
        "Bytes that the spool takes (spool.max_bytes), where there is one.",
    ),
    Metric(
        "headgate_ready",
        MetricKind.MAX,
        (),
        "1 while GET /ready answers 200, else 0.",
    ),
    Metric(
        "headgate_dependency_up",
        MetricKind.MAX,
        ("dependency",),
        "1 while every worker reaches this (redis, spool, blobs, or kafka and a cluster's name; "
        "each of several Redis servers with its name), else 0.",
    ),
    Metric(
        "headgate_workers", MetricKind.SUM, ("state",), "Worker processes by state (up, wanted)."
    ),
    Metric(
        "headgate_worker_restarts_total",
        MetricKind.COUNTER,
        (),
        "Workers started again because they had died.",
    ),
    Metric(
        "headgate_config_reloads_total",
        MetricKind.COUNTER,
        ("result",),
        "SIGHUP reloads by result (applied, refused).",
    ),
    Metric(
        "headgate_tls_reloads_total",
        MetricKind.COUNTER,
        ("result",),
        "Certificates that had changed when SIGHUP came, by result (applied, refused).",
    ),
    Metric(
        "headgate_certificate_expiry_timestamp_seconds",
        MetricKind.MAX,
        (),
        "When the certificate chain in force ends, in seconds since 1970; only with TLS.",
    ),
    Metric(
        "headgate_issuer_keys_fetches_total",
        MetricKind.COUNTER,
        ("result",),
        "Fetches of the keys of signed tokens, of all processes, by result (fetched, failed).",
    ),
    Metric(
        "headgate_trace_spans_total",
        MetricKind.COUNTER,
        ("result",),
        "Spans by what became of them: exported; refused by the collector; dropped, because too "
        "many waited for it or too many sampled requests were under way.",
    ),
    Metric(
        "headgate_build_info",
        MetricKind.MAX,
        ("version", "python"),
        "Always 1; the labels say what runs.",
    ),
    Metric(
        "headgate_native_info",
        MetricKind.MAX,
        ("native", "hot_path"),
        "Always 1; native: c or python, hot_path: mypyc or python.",
    ),
)
