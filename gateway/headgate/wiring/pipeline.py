"""The way of an event, put together: which stage leads to which.

    gate      does the topic take an event now, and by which rules?      every front asks
    decode    bodies become events                                       in C or in Python
    admit     in-flight budget, quotas
    records   key, partition, timestamp, size, lane
    identify  event ids that were seen before                            only where asked
    validate  schema, canonical form                                     only where asked
    turn      what arrived in one turn of the loop goes on together, by topic
    reserve   is it unchanged? Redis knows                               only where asked
    produce   too large: the topic's oversize policy; into its lane, and to Kafka
    complete  outcomes become answers, figures, facts

Each stage gets what it needs, and what it leads to, when it is built: so they are built from the
last to the first. Two edges lead back. What lanes report goes to stages that need the lanes
(`Reports`), and the records of an event that was too large enter again where any event is reserved
and produced (`Produce.use`).

Where topics spool, `spool.spool` stands between stages and lanes, and is both to the other.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from headgate.audits.facts import Facts
from headgate.backends.base import Deliveries, Identities, Lanes, Suppression, Verdicts
from headgate.core.admission import Admission
from headgate.core.formats.canonical import Fallback
from headgate.core.ids import EventIds
from headgate.core.outcome import Outcome
from headgate.offload.helper_process import HelperProcess
from headgate.oversize.choose import Tools
from headgate.oversize.stage import OversizeStage
from headgate.pipeline.clock import ClockWatch
from headgate.pipeline.complete import Complete, Reports
from headgate.pipeline.gate import Admit, Expire, Gate, Quotas
from headgate.pipeline.pipeline import Identify, Pipeline, Reserve, ReserveVerdicts
from headgate.pipeline.records import BuildRecords, Validate
from headgate.pipeline.turn import Produce, Turn
from headgate.spool.service import SpoolService


class RequestLimits(NamedTuple):
    """batch_max_events: events of one request.  request_timeout_ms: until the deadline's answer."""

    batch_max_events: int
    request_timeout_ms: int


class EventMeter(Protocol):
    """Who counts what becomes of events (`metrics.meter`)."""

    def account(
        self,
        producer: str,
        topic: str,
        outcomes: Sequence[Outcome],
        sizes: Sequence[int],
        request_id: str,
    ) -> None: ...

    def canonical_fallback(self, topic: str, reason: Fallback) -> None: ...

    def oversized(self, producer: str, topic: str, action: str) -> None: ...


class PipelineParts(NamedTuple):
    """What a pipeline is put together from.

    schedule: calls what it is given at the end of this turn of the event loop.
    lanes, suppression: made for who listens to them.  identities: None without Redis.
    tools: for what is too large.  clock_ms: milliseconds since 1970.  facts: where topics tell any.
    spool: where any topic spools.
    """

    schedule: Callable[[Callable[[], None]], object]
    gate: Gate
    admission: Admission
    quotas: Quotas
    ids: EventIds
    limits: RequestLimits
    clock_ms: Callable[[], int]
    clock: ClockWatch
    lanes: Callable[[Deliveries], Lanes]
    suppression: Callable[[Verdicts], Suppression]
    identities: Identities | None
    helper: HelperProcess
    tools: Tools
    meter: EventMeter
    facts: Facts | None = None
    spool: SpoolService | None = None


class Built(NamedTuple):
    """oversize: to be closed at the end."""

    pipeline: Pipeline
    oversize: OversizeStage


def build_pipeline(parts: PipelineParts) -> Built:
    """See the module."""
    meter, limits = parts.meter, parts.limits
    complete = Complete(parts.admission, meter, parts.identities, parts.facts)
    reports = Reports(parts.clock, complete)
    spool = parts.spool
    lanes = parts.lanes(reports) if spool is None else spool.between(reports, parts.lanes)
    produce = Produce(parts.ids, lanes, parts.gate.state_of)
    suppression = parts.suppression(ReserveVerdicts(complete, produce))
    scope_of = parts.gate.scope_of
    is_behind = None
    if spool is not None:
        spool.announce_with(suppression, scope_of)
        is_behind = spool.backlogs.is_behind
    reserve = Reserve(suppression, scope_of, produce, is_behind)
    validate = Validate(reserve, complete.refused, parts.helper, meter.canonical_fallback)
    turn = Turn(parts.schedule, reserve.take, complete.refused)
    identify = Identify(parts.identities, validate, turn, complete)
    records = BuildRecords(lanes, parts.clock_ms)
    admit = Admit(parts.admission, parts.quotas, limits.batch_max_events)
    expire = Expire(
        turn, validate, produce, suppression, complete, parts.ids, limits.request_timeout_ms
    )

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
    produce.use(oversize)
    reports.pass_on_to(suppression, oversize)

    stages = (
        parts.admission,
        parts.gate,
        admit,
        records,
        identify,
        validate,
        turn,
        complete,
        expire,
    )
    return Built(Pipeline(*stages, limits.batch_max_events), oversize)
