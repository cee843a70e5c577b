"""Tracing in a worker.

Without a collector there are no traces, and each stage finds None in a request's slot `trace`.
"""

import os
import platform
import random
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import NamedTuple

from headgate import __version__
from headgate.backends.owned import OwnedTasks
from headgate.config.settings import TracingSettings
from headgate.metrics.meter import Meter
from headgate.tracing.exporter import Collector, Exporter
from headgate.tracing.spans import LaterSpans, Sampling, Traces

_END_S = 1.0  # time for the sending task to end
_SPANS = 3  # maximum of a request


def _nothing_to_start(_closing: AsyncExitStack) -> None:
    pass


class Tracing(NamedTuple):
    """A worker's tracing.

    Args:
        traces: Open traces; None without tracing.
        later: Spans of later steps, in the spool and the coalescer.
        start: Begins to send spans; takes the stack that ends it.
    """

    traces: Traces | None = None
    later: LaterSpans | None = None
    start: Callable[[AsyncExitStack], None] = _nothing_to_start


def tracing_of(settings: TracingSettings, meter: Meter) -> Tracing:
    """Return a worker's tracing; the meter counts spans."""
    if settings.endpoint is None:
        return Tracing()
    timeout_s = settings.timeout_ms / 1000
    collector = Collector(settings.endpoint, settings.header_pairs, timeout_s)
    exporter = Exporter(_resource(settings.service_name), collector.post, meter.spans)
    making = (lambda digits: os.urandom(digits // 2).hex(), time.time_ns, exporter.take)
    sampling = Sampling(settings.sample_one_in, random.random)
    traces = Traces(sampling, *making, lambda: meter.spans("dropped", _SPANS))

    def start(closing: AsyncExitStack) -> None:
        tasks = OwnedTasks()
        closing.push_async_callback(collector.close)
        closing.push_async_callback(exporter.close)
        closing.push_async_callback(tasks.end, _END_S)
        tasks.keep(exporter.run, "export of spans")

    return Tracing(traces, LaterSpans(*making), start)


def _resource(service_name: str) -> Mapping[str, str | int]:
    """Return the source of the spans as OpenTelemetry attributes."""
    return {
        "service.name": service_name,
        "service.version": __version__,
        "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
        "host.name": socket.gethostname(),
        "process.pid": os.getpid(),
        "process.runtime.name": platform.python_implementation().lower(),
        "telemetry.sdk.name": "headgate",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": __version__,
    }
