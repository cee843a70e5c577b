"""A gateway with a real journal on disk, lanes that move when a test says so, and its own clock.

It can die at any moment and begin again over the same folder. What clients were told, and what the
log holds, outlive it.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from headgate.backends.base import Deliveries, Verdicts
from headgate.formats.decode import decode
from headgate.formats.json_text import KeyReader
from headgate.ingest.admission import Admission
from headgate.ingest.complete import ClockWatch
from headgate.ingest.gate import Gate, Routes
from headgate.ingest.turn import EventIds
from headgate.kafka.producer import SingleRecordBatch
from headgate.model.internal_topics import HELD_PREFIX, held_topic
from headgate.model.keys import partition_for
from headgate.model.outcome import Failure, OutcomeName, Reason
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.publish import Publish, Stage, Ticket
from headgate.model.record import EVENT_ID
from headgate.model.route import Route
from headgate.model.suppression import Scope
from headgate.model.topics import TopicState
from headgate.offload.helper_process import HelperProcess
from headgate.oversize.choose import Tools
from headgate.spool.backlog import Backlogs, DrainUnit
from headgate.spool.database import JournalError
from headgate.spool.disk import Disk, SpoolOptions
from headgate.spool.draining import Allowance, Draining, DrainSpans, Writing
from headgate.spool.spool import Spool
from headgate.wiring.pipeline import PipelineParts, build_pipeline
from support.gateway.fakes import (
    FakeLanes,
    FakeSuppression,
    FakeTopics,
    NoQuotas,
    topic_state,
)
from support.gateway.fakes import policy as policy_of
from support.gateway.meters import a_meter
from support.gateway.room import digest

AFTER_S = 2.0
AWAY = Failure(Reason.KAFKA_UNAVAILABLE, "no broker", retry_after_s=1)
NDJSON = b"application/x-ndjson"
UNKNOWN = Failure(Reason.UNKNOWN, "no answer")
RECREATED = Failure(Reason.KAFKA_UNAVAILABLE, "the topic was created again", retry_after_s=1)
HELD = 1000


class FaultyDisk(Disk):
    """fault: what the next commit meets: `certain` (nothing of it is written), `written` or `lost`
    (its end is not known to the gateway).  is_slow: whatever it is asked waits for `go_on`, before
    it is done and before that is known. It does one thing after another, as a thread does."""

    fault: str | None = None
    is_slow = False

    def go_on(self) -> bool:
        """Let what has waited longest go on; whether there was any."""
        waiting = self._waiting
        while waiting and waiting[0].done():  # who waited has ended
            waiting.popleft()
        if waiting:
            waiting.popleft().set_result(None)
            return True
        return False

    @cached_property
    def _waiting(self) -> deque[asyncio.Future[None]]:
        return deque()

    async def _run(self, call: Callable[..., Any], *arguments: object) -> Any:
        await self._wait()
        try:
            return call(*arguments)
        finally:
            await self._wait()

    async def _wait(self) -> None:
        if self.is_slow:
            self._waiting.append(asyncio.get_running_loop().create_future())
            await self._waiting[-1]

    async def commit(self, *arguments: object) -> list[tuple[int, int]]:  # type: ignore[override]
        fault, self.fault, known = self.fault, None, self._known
        if fault == "written":
            await super().commit(*arguments)  # type: ignore[arg-type]
            self._known = known
        if fault is not None:
            error = JournalError("the disk is full", is_certain=fault == "certain")
            if fault == "written":
                assert self._journal is not None
                self._journal._is_in_doubt = True
                self._journal.newest -= len(arguments[0])  # type: ignore[arg-type]
            self._failed(error)
            raise error
        return await super().commit(*arguments)  # type: ignore[arg-type]


class Line(list[Publish]):
    """A partition's log. landed: all logs' records in the order in which they came."""

    def __init__(self, landed: list[Publish], land: Callable[[Publish], None]) -> None:
        super().__init__()
        self.landed = landed
        self.land = land

    def extend(self, records: Iterable[Publish]) -> None:
        added = list(records)
        for one in added:
            self.land(one)
        self.landed.extend(added)
        super().extend(added)


class TopicLanes(FakeLanes):
    """Lanes of one topic and of its held topic, whose partitions count from `HELD`.

    is_stale: whether Kafka has other topics of these names than the gateway knows.  learn: called
    when Kafka has refused a batch for that.
    """

    def __init__(
        self, deliveries: Deliveries, is_stale: Callable[[], bool], learn: Callable[[], None]
    ) -> None:
        super().__init__(deliveries)
        self._is_stale = is_stale
        self._learn = learn
        self._ended: set[int] = set()  # with a batch of a former topic in flight

    def is_former(self, publish: Publish) -> bool:
        """Whether a batch that is in flight is for a topic that was deleted."""
        number = _number(publish.record.topic, publish.record.partition)
        return self._is_stale() or number in self._ended

    def end_topics(self) -> None:
        """The gateway has learned of other topics: the lanes of the former ones end."""
        self._ended |= {number for number, batch in self.handed.items() if batch}
        queues, self.queues = self.queues, {}
        for queue in queues.values():
            self._fail(queue)

    def acknowledge(self, partition: int) -> None:
        if not self._is_stale() and partition not in self._ended:
            super().acknowledge(partition)
        elif self.handed.get(partition):
            self.put_back(partition)
            if self._is_stale():
                self._learn()

    def put_back(self, partition: int) -> None:
        if partition in self._ended:
            self.fail(partition, RECREATED)
        else:
            super().put_back(partition)

    def fail(self, partition: int, failure: Failure) -> None:
        self._ended.discard(partition)
        super().fail(partition, failure)

    def _fail(self, queue: list[Publish]) -> None:
        ended = [one for one in queue if not one.dropped]
        self._end(ended)
        if ended:
            self._deliveries.failed(ended, RECREATED)

    def refusal(self, state: TopicState, partition: int) -> Failure | None:
        return super().refusal(state, _number(state.name, partition))

    def put(self, publish: Publish) -> None:
        publish.advance(Stage.LANE)
        number = _number(publish.record.topic, publish.record.partition)
        self.queues.setdefault(number, []).append(publish)

    def oldest_event(self, topic: str, partition: int) -> Publish | None:
        return super().oldest_event(topic, _number(topic, partition))

    def withdraw(self, topic: str, partition: int) -> tuple[list[Publish], list[Publish]]:
        return super().withdraw(topic, _number(topic, partition))


def _number(topic: str, partition: int) -> int:
    return partition + HELD if topic.startswith(HELD_PREFIX) else partition


class SpoolWorld:
    """`deals` suppresses and spools, `orders` spools, `clicks` does neither.

    log: what Kafka holds, by partition, over all lives; landed: the same in order.
    partitions: that the topics have; the gateway may have to `learn` of it.
    misplaced: records from the spool that landed where their keys do not belong, and others that
    landed in a topic that never had the number of partitions that they were placed by.
    now_s: monotonic; now_ms: the wall clock.
    """

    def __init__(self, folder: Path, options: SpoolOptions | None = None) -> None:
        self.options = options or SpoolOptions(folder, 1 << 30, 10**10, 1_000_000)
        self.now_s, self.now_ms = 100.0, 1_700_000_000_000
        self.landed: list[Publish] = []
        self.log: dict[int, Line] = defaultdict(lambda: Line(self.landed, self._land))
        self.misplaced: list[Publish] = []
        self.partitions = 3
        self._counts = {3}  # partitions that the topics have had since they were created
        self._incarnation = self._known = 1
        self.meter = a_meter()
        self.is_up = True
        self.spans: DrainSpans | None = None
        self.after_s: float | None = AFTER_S
        self._begun: dict[str, asyncio.Task[object]] = {}

    def _land(self, publish: Publish) -> None:
        """Note a record in a partition that is not its key's."""
        key, partition = publish.record.key, publish.record.partition
        if self.lanes.is_former(publish):  # it goes with the former topic
            return
        counts = {self.partitions} if isinstance(publish.owner, DrainUnit) else self._counts
        if key is not None and partition not in {partition_for(key, one) for one in counts}:
            self.misplaced.append(publish)

    async def live(self) -> None:
        """Begin, over what an earlier life left on disk."""
        self.table = _table(spool=True)
        self.topics = FakeTopics(
            *(topic_state(one, self.partitions) for one in ("orders", "deals", "clicks", "sparks"))
        )
        self._known = 1
        self.scope = Scope("deals", b"\1" * 16, self.partitions, b"f")
        self.orders_scope = Scope("orders", b"\1" * 16, self.partitions, b"f")
        self.disk = FaultyDisk(self.options, lambda: self.now_ms)
        self.allowance = Allowance(self.options.drain_events_per_s, lambda: self.now_s)

        def after_s(topic: str) -> float | None:
            policy = self.table.match(topic)
            return self.after_s if policy is not None and policy.spool else None

        self._after_s = after_s
        self.found = await self.disk.open()
        self.admission = Admission(1_000_000_000, 1_000_000)
        ids, helper = EventIds(b"\1" * 6), HelperProcess()
        self.routes = Routes(self.table, self.topics, self._route)
        self.backlogs = Backlogs(lambda: self.suppression, self.routes.scope_of)
        parts = PipelineParts(
            schedule=lambda call: call(),
            gate=Gate(self.routes, is_spooled=self.backlogs.is_behind),
            admission=self.admission,
            spend_quota=NoQuotas(),
            ids=ids,
            batch_max_events=1000,
            request_timeout_ms=30_000,
            clock_ms=lambda: self.now_ms,
            clock=ClockWatch(self.topics.get, lambda: self.now_s),
            lanes=self._open_lanes,
            suppression=self._open_suppression,
            identities=None,
            helper=helper,
            tools=Tools(ids, None, helper, SingleRecordBatch, 1 << 20),
            meter=a_meter(),
            spool=self._open_spool,  # type: ignore[arg-type]
        )
        built = build_pipeline(parts)
        self.pipeline, self.oversize = built.pipeline, built.oversize
        self.backlogs.restore(self.found)
        self.draining = Draining(
            self.backlogs,
            self.disk,
            self.writing,
            self.lanes,
            self.topics,
            lambda cluster: self.is_up,
            self._is_fresh,
            self.allowance,
            lambda: self.now_s,
            self.meter,
            self.spans,
        )
        self.learn()

    def _open_spool(
        self, reports: Deliveries, lanes: Callable[[Deliveries], FakeLanes]
    ) -> SpoolWorld:
        """This world has what `build_pipeline` uses of a `SpoolService`."""
        news = asyncio.Event()
        self.spool = Spool(
            self.backlogs,
            self.disk,
            reports,  # type: ignore[arg-type]
            self._after_s,
            lambda: self.now_s,
            news.set,
            self.topics.get,
            lanes,
        )
        came = self.allowance.came
        self.writing = Writing(self.spool, self.disk, lambda: self.now_ms, came, news, self.meter)
        return self

    def _open_lanes(self, deliveries: Deliveries) -> FakeLanes:
        self.lanes = TopicLanes(
            deliveries, lambda: self._known != self._incarnation, lambda: self.learn()
        )
        for number in (*range(5), *range(HELD, HELD + 5)):
            self.log[number]  # so that it is one of ours
        self.lanes.logs = self.log  # type: ignore[assignment]
        return self.lanes

    def _open_suppression(self, verdicts: Verdicts) -> FakeSuppression:
        self.suppression = FakeSuppression(verdicts)
        return self.suppression

    def _route(
        self, chosen: TopicPolicy, state: TopicState, held: TopicState | None = None
    ) -> Route:
        if chosen.suppress == "off" or held is not None:
            return Route(chosen, state, KeyReader.parse(chosen.key), 128, held=held)
        scope = self.scope if state.name == "deals" else self.orders_scope
        return Route(chosen, state, KeyReader.parse(chosen.key), 128, digest, scope)

    # ---- what tests do

    def post(self, topic: str, *values: object, **headers: bytes) -> Ticket:
        """One request with these documents."""
        body = "\n".join(map(json.dumps, values)).encode()
        kind = b"application/json" if len(values) == 1 else b"application/x-ndjson"
        assert self.admission.take_bytes("p", len(body)) is None
        given = {b"content-type": kind, **{name.encode(): one for name, one in headers.items()}}
        ticket = Ticket(topic, "p", "r", self.now_s, given, body)
        self.pipeline.take(ticket)
        return ticket

    def post_for_offset(self, topic: str, *values: object) -> Ticket:
        """The same by a front whose answers name offsets."""
        body = "\n".join(map(json.dumps, values)).encode()
        assert self.admission.take_bytes("p", len(body)) is None
        ticket = Ticket(topic, "p", "r", self.now_s, {b"content-type": NDJSON}, body)
        self.pipeline.take(ticket, lambda asked, _: decode(asked.body, asked.headers, False, 1000))
        return ticket

    def reload(self, *, spool: bool, **orders: object) -> None:
        """Whether the topics spool from now on; orders: other options of that topic."""
        self.table = _table(spool=spool, **orders)
        self.routes.replace(self.table)

    def hold_orders(self, *, is_held: bool) -> None:
        """Make or delete the held topic of `orders`."""
        name = held_topic("orders")
        if is_held:
            self.topics.states[name] = topic_state(name, self.partitions)
        else:
            self.topics.states.pop(name, None)
        self.routes.forget("orders")

    def limit_orders(self, max_message_bytes: int) -> None:
        """Let Kafka take no larger batches of `orders`."""
        states = self.topics.states
        states["orders"] = states["orders"]._replace(max_message_bytes=max_message_bytes)

    async def prepared(self) -> None:
        """Wait until every oversized event is prepared."""
        await asyncio.gather(*self.oversize._fitting.values(), return_exceptions=True)

    def away(self) -> None:
        """Kafka is known to be away."""
        self.is_up = False
        self.lanes.refusing = dict.fromkeys(range(2 * HELD), AWAY)

    def back(self) -> None:
        """Kafka is back."""
        self.is_up = True
        self.lanes.refusing = {}
        if not self.backlogs.topics:
            self.learn()

    def decide(self) -> None:
        """Redis answers all that it was asked."""
        while self.suppression.queue:
            self.suppression.decide()

    def publish(self, most: int = 1000) -> None:
        """Kafka takes all that is in the lanes."""
        self.decide()
        for partition in {*self.lanes.queues, *self.lanes.handed}:
            while self.lanes.queues.get(partition) or self.lanes.handed.get(partition):
                self.lanes.hand_over(partition, most)
                self.lanes.acknowledge(partition)

    async def drain(self) -> None:
        """Publish all that is spooled, and forget it."""
        for _ in range(10_000):
            self.publish()
            await self.writing.write()
            self.now_s += 1.0
            await self.draining.turn()
            self.spool.sweep()
            if all(one.is_empty for one in self.backlogs) and not any(self.lanes.queues.values()):
                return
        raise AssertionError("it does not come to an end")

    async def go(self, name: str, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Begin this, unless it has not ended since it was begun under this name; go on with all
        that was begun as far as the disk lets it."""
        begun = self._begun.get(name)
        if begun is None or begun.done():
            if begun is not None:
                begun.result()
            self._begun[name] = asyncio.create_task(work())
        await self.go_on()

    async def go_on(self) -> None:
        """See `go`."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def hurry(self) -> None:
        """The disk is quick again, and what was begun comes to its end."""
        self.disk.is_slow = False
        while self.disk.go_on():
            await self.go_on()
        for task in self._begun.values():
            await task
        self._begun.clear()

    async def end(self) -> None:
        """Die: nothing of what was in memory is left."""
        for task in self._begun.values():
            task.cancel()
        await asyncio.gather(*self._begun.values(), return_exceptions=True)
        self._begun.clear()
        self.disk.is_slow = False
        await self.disk.close()

    def grow(self) -> None:
        """The topics have more partitions from now on."""
        self.resize(5)

    def resize(self, partitions: int) -> None:
        """The topics have so many partitions from now on: with fewer, they were made again. The
        gateway knows."""
        self.partitions = partitions
        self._counts.add(partitions)
        self.learn()

    def recreate(self, partitions: int) -> None:
        """The topics are deleted and created again. The gateway does not know yet."""
        self.partitions = partitions
        self._counts = {partitions}
        self._incarnation += 1

    def learn(self) -> None:
        """The gateway reads the topics."""
        topic_id = bytes([self._incarnation]) * 16
        is_other, self._known = self._known != self._incarnation, self._incarnation
        self._counts.add(self.partitions)
        changed = [
            (state, state._replace(partitions=self.partitions, topic_id=topic_id))
            for state in self.topics.states.values()
            if is_other or state.partitions != self.partitions
        ]
        self.topics.states.update({after.name: after for _, after in changed})
        for before, after in changed:
            self.spool.topic_changed(before, after)
        if is_other:
            self.lanes.end_topics()

    def _is_fresh(self, cluster: str, since_s: float) -> bool:
        self.learn()
        return True

    def written(self) -> Iterator[tuple[bytes | None, str, Any]]:
        """Key, event id and value of all records, in the order in which they came."""
        for one in self.landed:
            record = one.record
            event_id = dict(record.headers)[EVENT_ID].decode()
            yield record.key, event_id, json.loads(record.value or b"null")


def _table(*, spool: bool, **orders: object) -> PolicyTable:
    return PolicyTable(
        [
            policy_of(key=("/id",), spool=spool, **orders),
            policy_of(pattern="deals", key=("/id",), suppress="raw", spool=spool),
            policy_of(pattern="clicks", keyless="spread"),
            policy_of(pattern="sparks", key=(), keyless="spread", spool=spool),
        ]
    )


def names(ticket: Ticket) -> list[OutcomeName | None]:
    """How each event of a request was answered so far."""
    return [None if one is None else one.name for one in ticket.outcomes]
