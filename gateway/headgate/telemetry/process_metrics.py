"""The metrics of the processes themselves: what they take, what they trace, what runs."""

from headgate.telemetry.metric import Metric, MetricKind

PROCESS_METRICS = (
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
