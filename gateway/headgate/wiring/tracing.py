"""Tracing in a worker: wrappers around its parts, or none at all.

This module decides once whether a worker traces. If it does not, each part stays as it is, so that
no request and no event passes an extra line or branch.
"""

import os
import platform
import random
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import NamedTuple, TypeVar

from headgate import __version__
from headgate.backends.base import Deliveries, Lanes, Suppression, Verdicts
from headgate.backends.owned import OwnedTasks
from headgate.config.settings import TracingSettings
from headgate.http.events import EventsFront, Requests
from headgate.http.request_log import RequestReports
from headgate.http.routes import Page
from headgate.http.short_way import Front
from headgate.http.traced import (
    RequestMeter,
    TracedAnswers,
    TracedFront,
    TracedReports,
    TracedRequests,
    current_trace_id,
)
from headgate.metrics.meter import Meter
from headgate.tracing.exporter import Collector, Exporter
from headgate.tracing.spans import LaterSpans, Sampling, Traces
from headgate.tracing.stages import (
    TracedDeliveries,
    TracedLanes,
    TracedSuppression,
    TracedVerdicts,
)

Part = TypeVar("Part")
OpenLanes = Callable[[Deliveries], Lanes]
OpenSuppression = Callable[[Verdicts], Suppression]

_END_S = 1.0  # time for the sending task to end
_SPANS = 3  # maximum of a request


def _as_it_is(part: Part) -> Part:
    return part


def _first(answer: Page, _front: EventsFront) -> Page:
    return answer


def _no_trace() -> None:
    return None


def _nothing_to_start(_closing: AsyncExitStack) -> None:
    pass


class Tracing(NamedTuple):
    """The wrappers of a worker's parts; without tracing the parts stay as they are.

    Args:
        lanes: Wraps the lanes, and their reports.
        suppression: Wraps the queries to Redis, and its verdicts.
        requests: Wraps the meter of requests.
        reports: Wraps the log of requests.
        front: Wraps the front for the fast path.
        answer: Wraps the handler of all other requests.
        trace_id: Returns the trace id of the current request, for the log.
        start: Begins to send spans; takes the stack that ends it.
        later: Spans of later steps, in the spool and the coalescer.
    """

    lanes: Callable[[OpenLanes], OpenLanes] = _as_it_is
    suppression: Callable[[OpenSuppression], OpenSuppression] = _as_it_is
    requests: Callable[[RequestMeter], Requests] = _as_it_is
    reports: Callable[[RequestReports], RequestReports] = _as_it_is
    front: Callable[[EventsFront], Front] = _as_it_is
    answer: Callable[[Page, EventsFront], Page] = _first
    trace_id: Callable[[], str | None] = _no_trace
    start: Callable[[AsyncExitStack], None] = _nothing_to_start
    later: LaterSpans | None = None


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

    return traced_by(traces)._replace(start=start, later=LaterSpans(*making))


def traced_by(traces: Traces) -> Tracing:
    """Return wrappers that measure the requests that `traces` samples."""
    return Tracing(
        partial(_lanes, traces),
        partial(_suppression, traces),
        TracedRequests,
        TracedReports,
        lambda front: TracedFront(front, traces),
        lambda answer, front: TracedAnswers(answer, traces, front.request_id).answer,
        current_trace_id,
    )


def _lanes(traces: Traces, open_lanes: OpenLanes) -> OpenLanes:
    def opened(deliveries: Deliveries) -> Lanes:
        return TracedLanes(open_lanes(TracedDeliveries(deliveries, traces)), traces)

    return opened


def _suppression(traces: Traces, open_suppression: OpenSuppression) -> OpenSuppression:
    def opened(verdicts: Verdicts) -> Suppression:
        return TracedSuppression(open_suppression(TracedVerdicts(verdicts, traces)), traces)

    return opened


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
