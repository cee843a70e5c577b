"""What a gateway says of itself: its processes, limits and dependencies, and what runs."""

from headgate.telemetry.metric import Metric, MetricKind

INSTANCE_METRICS = (
    Metric(
        "headgate_event_loop_stall_seconds",
        MetricKind.MAX,
        (),
        "Longest stall of a worker's event loop in the last minute.",
    ),
    Metric(
        "headgate_worker_cpu_seconds_total",
        MetricKind.COUNTER,
        ("mode",),
        "CPU seconds of the workers, by mode (user, system).",
    ),
    Metric(
        "headgate_worker_memory_bytes",
        MetricKind.SUM,
        (),
        "Resident memory of all workers.",
    ),
    Metric(
        "headgate_worker_tasks",
        MetricKind.SUM,
        (),
        "Tasks in the workers' event loops: one for each open connection, plus some dozens.",
    ),
    Metric(
        "headgate_in_flight_limit_events",
        MetricKind.MAX,
        (),
        "Limit of events in flight (admission.in_flight_max_events). Above it the gateway answers "
        "503.",
    ),
    Metric(
        "headgate_in_flight_limit_bytes",
        MetricKind.MAX,
        (),
        "Limit of bytes in flight (admission.in_flight_max_bytes). Above it the gateway answers "
        "503.",
    ),
    Metric(
        "headgate_spool_limit_bytes",
        MetricKind.MAX,
        (),
        "Limit of bytes in the spool (spool.max_bytes). Absent without a spool.",
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
        "1 while every worker reaches the dependency, else 0. Dependencies: redis, spool, blobs, "
        "kafka with a cluster's name; each of several Redis servers has its own name.",
    ),
    Metric(
        "headgate_workers",
        MetricKind.SUM,
        ("state",),
        "Worker processes by state: up (running) and wanted (configured).",
    ),
    Metric(
        "headgate_worker_restarts_total",
        MetricKind.COUNTER,
        (),
        "Restarts of workers that exited unexpectedly.",
    ),
    Metric(
        "headgate_config_reloads_total",
        MetricKind.COUNTER,
        ("result",),
        "Configuration reloads by result (applied, refused).",
    ),
    Metric(
        "headgate_tls_reloads_total",
        MetricKind.COUNTER,
        ("result",),
        "Reloads of a changed certificate, by result (applied, refused).",
    ),
    Metric(
        "headgate_certificate_expiry_timestamp_seconds",
        MetricKind.MAX,
        (),
        "Expiry of the active certificate chain, in seconds since 1970. Only with TLS.",
    ),
    Metric(
        "headgate_issuer_keys_fetches_total",
        MetricKind.COUNTER,
        ("result",),
        "Fetches of an issuer's token keys by all processes, by result (fetched, failed).",
    ),
    Metric(
        "headgate_trace_spans_total",
        MetricKind.COUNTER,
        ("result",),
        "Spans by result: exported, refused (by the collector), or dropped (too many spans "
        "waited, or too many sampled requests were open).",
    ),
    Metric(
        "headgate_build_info",
        MetricKind.MAX,
        ("version", "python"),
        "Always 1. The labels name the running versions.",
    ),
    Metric(
        "headgate_native_info",
        MetricKind.MAX,
        ("native", "hot_path"),
        "Always 1. native: c or python. hot_path: mypyc or python.",
    ),
)
