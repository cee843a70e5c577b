"""Assembly of the pipeline; `ingest.path` has its stages and rules.

Each stage gets its dependencies and its next stage when it is built, so the last stage is built
first. Two edges lead back, through callbacks. Lane reports go to stages that need the lanes
(`Reports`). The records of an oversize event enter again at the stages that reserve and produce.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from headgate.audits.facts import Facts
from headgate.backends.base import Deliveries, Identities, Lanes, Suppression, Verdicts
from headgate.ingest.admission import Admission, Admit, SpendQuota
from headgate.ingest.complete import ClockWatch, Complete, Reports
from headgate.ingest.deadlines import Expire
from headgate.ingest.gate import Gate
from headgate.ingest.path import Pipeline
from headgate.ingest.records import BuildRecords, Validate
from headgate.ingest.turn import EventIds, Produce, Reserve, ReserveVerdicts, Turn
from headgate.metrics.meter import Meter
from headgate.offload.helper_process import HelperProcess
from headgate.oversize.choose import Tools
from headgate.oversize.stage import OversizeStage
from headgate.tracing.spans import Traces

if TYPE_CHECKING:
    from headgate.spool.service import SpoolService

OpenLanes = Callable[[Deliveries], Lanes]


class PipelineParts(NamedTuple):
    """The parts of a pipeline.

    Attributes:
        schedule: Calls its argument at the end of this turn of the event loop.
        gate: Decides whether a topic takes an event.
        admission: Budget of events in flight.
        spend_quota: Charges a request to its producer's quota, or returns why it is refused.
        ids: Generates ids of events.
        batch_max_events: Maximum number of a request's events.
        request_timeout_ms: Time until the deadline's response, in milliseconds.
        clock_ms: Milliseconds since 1970.
        clock: Watch on the timestamps that Kafka refuses.
        lanes: Makes the lanes, which report to the listener that it gets.
        suppression: Makes the suppression, which reports to the listener that it gets.
        identities: State of event ids; None without Redis.
        helper: Process that examines large events.
        tools: Tools for oversize events.
        meter: Metrics.
        facts: Log of facts, if any topic has them.
        spool: Returns the spool for the receiver of its results and the lanes; None without one.
        traces: Open traces, if requests are traced.
    """

    schedule: Callable[[Callable[[], None]], object]
    gate: Gate
    admission: Admission
    spend_quota: SpendQuota
    ids: EventIds
    batch_max_events: int
    request_timeout_ms: int
    clock_ms: Callable[[], int]
    clock: ClockWatch
    lanes: OpenLanes
    suppression: Callable[[Verdicts], Suppression]
    identities: Identities | None
    helper: HelperProcess
    tools: Tools
    meter: Meter
    facts: Facts | None = None
    spool: "Callable[[Reports, OpenLanes], SpoolService] | None" = None
    traces: Traces | None = None


class Built(NamedTuple):
    """A pipeline, and its parts that must be started or closed.

    Attributes:
        lanes: The lanes that `PipelineParts.lanes` returned; behind the spool, if there is one.
    """

    pipeline: Pipeline
    suppression: Suppression
    oversize: OversizeStage
    lanes: Lanes
    spool: "SpoolService | None"


def build_pipeline(parts: PipelineParts) -> Built:
    """Assemble the stages; see the module."""
    gate, ids, meter = parts.gate, parts.ids, parts.meter
    complete = Complete(parts.admission, meter, parts.identities, parts.facts)
    reports = Reports(
        parts.clock,
        complete,
        lambda: suppression,
        lambda: oversize,
        parts.traces,
    )
    spool = None if parts.spool is None else parts.spool(reports, parts.lanes)
    lanes: Lanes = parts.lanes(reports) if spool is None else spool.spool
    is_behind = None if spool is None else spool.backlogs.is_behind
    produce = Produce(ids, lanes, gate.routes.state_of, lambda: oversize)
    suppression = parts.suppression(ReserveVerdicts(complete, produce))
    reserve = Reserve(suppression, produce, is_behind)
    oversize = OversizeStage(
        lanes,
        reserve,
        produce,
        suppression,
        complete,
        reports,
        parts.tools,
        meter.oversized,
        is_behind,
    )
    validate = Validate(reserve.one, complete.reject, parts.helper, meter.canonical_fallback)
    turn = Turn(parts.schedule, reserve.take, complete.reject)
    pipeline = Pipeline(
        parts.admission,
        gate,
        Admit(parts.admission, parts.spend_quota, parts.batch_max_events),
        BuildRecords(lanes, parts.clock_ms),
        parts.identities,
        validate,
        turn,
        complete,
        Expire(turn, validate, produce, suppression, complete, ids, parts.request_timeout_ms),
        parts.batch_max_events,
    )
    behind = lanes if spool is None else spool.spool.lanes
    return Built(pipeline, suppression, oversize, behind, spool)
