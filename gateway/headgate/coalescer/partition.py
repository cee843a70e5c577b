"""A held partition: its sessions, and its owner.

A session lasts from InitProducerId to the first unknown result. The rules and their numbers are
those of docs/design/coalescing-protocol.md. Any error ends the session: its owner drops the
producer and begins another session (rules 3, 9, 10).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from headgate.coalescer.decisions import (
    CoalescingRules,
    Committed,
    Decisions,
    Emission,
    LogError,
    Read,
    Turns,
    WindowDecision,
    WindowVerdict,
)
from headgate.coalescer.windows import (
    DoneMark,
    DoneMarks,
    Figures,
    Metadata,
    Sum,
    Window,
    Windows,
    mark_headers,
    marks_of,
    read_held,
)
from headgate.consumer.membership import committed
from headgate.kafka.options import ClusterOptions
from headgate.kafka.topics import kafka_error
from headgate.kafka.transactions import (
    STEP_TIMEOUT_S,
    TransactionalProducer,
    TransactionError,
)
from headgate.metrics.meter import Meter
from headgate.model.outcome import OutcomeName
from headgate.model.publish import Record
from headgate.model.route import Route

log = logging.getLogger("headgate.coalescer")

_WAIT_MS = 1000  # the longest fetch: stops and reloads must be noticed
_IDLE_MS = 500  # an offset alone is committed after so long without records
_MARKS_A_KEY = 10  # a mark is a key and a number, a held event some hundred bytes and its value
_BACK_MS = 1000  # the largest step back of a clock, such as a correction
_REDIS_WAIT_MS = 1000  # pause before the next RESERVE if the topic must not publish without it


class PartitionSession:
    """One session of an assignment. A change of the topic's rules begins another session."""

    def __init__(
        self,
        partition: "KafkaHeldPartition",
        decisions: Decisions,
        rules: CoalescingRules,
        around: "PartitionOwner",
    ) -> None:
        self._log = partition
        self._decisions = decisions
        self._rules = rules
        self._around = around
        self._committed = -1
        self._topic_id = ""
        self._is_flagged = False
        self._latest_ms = 0

    async def run(self) -> None:
        """Coalesce until it is time to stop.

        Raises:
            LogError: A call failed, or its result is unknown.
        """
        self._latest_ms = self._around.now_ms()
        windows = await self._begin()
        while not self._around.is_stopping():
            await self._read(windows)
            if windows.needs_marks:
                windows = await self._begin_with_marks(windows.target)
                continue
            self._around.figures = windows.figures
            rules = self._rules
            now_ms = self._now_ms()
            await self._around.turn()
            closed = windows.take_due(now_ms, rules.max_records, rules.max_bytes)
            if closed and not await self._emit(windows, closed):
                await self._around.pause(_REDIS_WAIT_MS / 1000)

    async def _begin(self) -> Windows:
        """Fence earlier owners, then read offset and end, in this order (rule 2)."""
        await self._log.fence()
        committed = await self._log.committed()
        metadata = Metadata.read(committed.metadata)
        # Another version's metadata, which may have the flag for unreserved publishes.
        is_unknown = metadata is None and committed.metadata != ""
        offset = committed.offset
        # Once per session (rule 14). This session commits and marks offsets of the H that it began
        # with. Under the id of an H that was recreated meanwhile, the next session would trust
        # them, and skip as many events of the new H.
        self._topic_id = self._around.topic_id()
        if metadata is not None and metadata.topic_id != self._topic_id:
            offset, metadata = -1, None  # H was recreated
        if is_unknown or (metadata is not None and metadata.has_unreserved):
            self._is_flagged = True
            self._decisions.distrust(self._around.route())
        target = await self._log.end()
        position = await self._log.seek(offset)
        self._committed = offset
        return Windows(self._rules.times, self._rules.bounds, target, position)

    async def _begin_with_marks(self, target: int) -> Windows:
        """Begin again with all done marks, because more is held than the bounds allow.

        The events read so far are dropped, and H is read twice from the group's offset. The first
        pass reads only the done marks. With all of them a session may emit before it has read to
        the end (the note on rule 4), and so hold no more than the bounds allow.

        Args:
            target: Offset that the first pass reads to.
        """
        marks = DoneMarks(_MARKS_A_KEY * self._rules.bounds.keys)
        position = await self._log.seek(self._committed)
        while position < target and not self._around.is_stopping():
            read = await self._poll(_WAIT_MS)
            marks.read(read.records)
            position = read.position
            if marks.are_too_many:
                detail = "raise coalesce_max_keys: more keys are marked as done than it allows for"
                raise LogError("too_many_marks", detail, True)
        position = await self._log.seek(self._committed)
        bounds = self._rules.bounds
        return Windows(self._rules.times, bounds, target, position, marks.by_key)

    async def _read(self, windows: Windows) -> None:
        due_ms = windows.next_due_ms()
        wait_ms = _WAIT_MS
        if due_ms is not None:
            wait_ms = max(0, min(_WAIT_MS, due_ms - self._now_ms()))
        if self._owes_offset(windows):
            wait_ms = min(wait_ms, _IDLE_MS)
        if windows.must_close:
            return
        read = await self._poll(wait_ms)
        await self._around.turn()
        windows.read(read.records, read.position, self._now_ms())
        if not read.records and not windows.is_catching_up and self._owes_offset(windows):
            await self._commit(windows.low_water(), Unsettled(self._decisions, ()))

    def _now_ms(self) -> int:
        """Return the time, in milliseconds since 1970.

        Raises:
            LogError: The clock went back. Open windows would stay open for as long; in the next
                session they open again, by the new time.
        """
        now_ms = self._around.now_ms()
        if now_ms < self._latest_ms - _BACK_MS:
            back_s = (self._latest_ms - now_ms) / 1000
            raise LogError("clock_went_back", f"the clock went back by {back_s:.0f} s", True)
        self._latest_ms = max(self._latest_ms, now_ms)
        return now_ms

    async def _poll(self, wait_ms: int) -> Read:
        """Read records of H, without the marks of an earlier H of this name."""
        await self._around.turn()  # a read of buffered records does not wait
        records, position = await self._log.read(wait_ms)
        current = [
            record
            for record in records
            if type(record) is not DoneMark or record.topic_id == self._topic_id
        ]
        return Read(current, position)

    def _owes_offset(self, windows: Windows) -> bool:
        """Return whether an offset is due without a publish (rule 7).

        It is due if no window is open and the group's offset lies behind, or if the flag can go.
        """
        behind = windows.is_empty and windows.position > self._committed
        return behind or (self._is_flagged and not self._has_unreserved())

    def _has_unreserved(self) -> bool:
        return self._decisions.has_unreserved(self._around.route())

    async def _emit(self, windows: Windows, closed: Sequence[Window]) -> bool:
        """Publish closed windows in one transaction (rule 5).

        The steps are RESERVE for all, append, offset, EndTxn and SETTLE.

        Returns:
            False if all windows must wait, because Redis is away and the topic waits for it.
        """
        route = self._around.route()
        decided = await self._decisions.reserve(route, closed)
        pairs = list(zip(closed, decided, strict=True))
        waiting = [window for window, choice in pairs if choice.verdict is WindowVerdict.WAIT]
        if waiting:
            windows.put_back(waiting, self._around.now_ms() + _REDIS_WAIT_MS)
        publish = [pair for pair in pairs if pair[1].verdict is WindowVerdict.PUBLISH]
        unchanged = [
            window for window, choice in pairs if choice.verdict is WindowVerdict.UNCHANGED
        ]
        if not publish and not unchanged:
            return False
        low_water = windows.low_water()
        settlements = Unsettled(self._decisions, publish)
        try:
            await self._write(settlements, low_water)
            await self._commit(low_water, settlements)
        finally:
            settlements.settle()
        self._around.ended(OutcomeName.PUBLISHED, [window for window, _ in publish])
        self._around.ended(OutcomeName.UNCHANGED, unchanged)
        return True

    async def _write(self, settlements: "Unsettled", low_water: int) -> None:
        emitted = settlements.windows
        if not emitted:
            return
        await self._around.turn()
        emissions = [_emission(window, decision) for window, decision in settlements.publish]
        with settlements.refusable():
            settlements.offsets = await self._log.append(emissions, self._marks(emitted, low_water))

    def _marks(self, emitted: Sequence[Window], low_water: int) -> Sequence[DoneMark]:
        return marks_of(emitted, low_water, self._topic_id)

    async def _commit(self, offset: int, settlements: "Unsettled") -> None:
        has_unreserved = self._has_unreserved()
        metadata = Metadata(self._topic_id, has_unreserved).text()
        with settlements.refusable():
            await self._log.send_offset(offset, metadata)
        await self._log.end_transaction()  # rule 9: after an error here its result is unknown
        settlements.is_committed = True
        self._committed, self._is_flagged = offset, has_unreserved


class Unsettled:
    """The publishes of a transaction until they are settled in Redis, once (rule 8)."""

    def __init__(
        self, decisions: Decisions, publish: Sequence[tuple[Window, WindowDecision]]
    ) -> None:
        self._decisions = decisions
        self.publish = publish
        self._is_refused = False
        self.offsets: Sequence[int] = [-1] * len(publish)
        self.is_committed = False

    @property
    def windows(self) -> list[Window]:
        return [window for window, _ in self.publish]

    @contextmanager
    def refusable(self) -> Iterator[None]:
        """Guard a step before EndTxn: if Kafka refuses it, no record is in the topic."""
        try:
            yield
        except LogError as error:
            self._is_refused = error.is_refusal
            raise

    def settle(self) -> None:
        """Settle each publish, or give it up if its result or its offset is unknown."""
        for (_, decided), offset in zip(self.publish, self.offsets, strict=True):
            if self.is_committed and offset >= 0:
                self._decisions.settle(decided, offset)
            else:
                self._decisions.give_up(decided, certain=self._is_refused)


def _emission(window: Window, decided: WindowDecision) -> Emission:
    held = window.last
    return Emission(decided.partition, held.key, held.value, held.headers, held.timestamp_ms)


# ---- one partition of a held topic in Kafka, for one session of its owner


GROUP = "headgate.held"  # commits the offsets of all held topics
FENCED = "fenced"
MAX_RECORDS = 100  # of one reading, 1-2 ms: it must not hold up the event loop
_FENCE_S = 60.0  # InitProducerId waits for the markers of a decided transaction
_GRACE_S = 5.0
_EARLIEST = -1


class HeldPartition(NamedTuple):
    """The partition of an owner.

    Attributes:
        topic: The topic that clients post to; O in the protocol.
        held: Its held topic; H in the protocol.
        partition: The partition of the held topic.
    """

    topic: str
    held: str
    partition: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.held, self.partition)


class KafkaHeldPartition:
    """One partition of H, and one transactional producer, for one session of its owner.

    Every call may raise LogError. Nothing here is shared with an earlier life (rules 1, 3).

    Args:
        consumer: Consumer of the group member.
        producer: Transactional producer of this session.
        target: The partition.
        is_current: Returns whether the term of ownership still lasts.
        now_ms: Wall clock, in milliseconds since 1970.
    """

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        producer: TransactionalProducer,
        target: HeldPartition,
        is_current: Callable[[], bool],
        now_ms: Callable[[], int],
    ) -> None:
        self._consumer = consumer
        self._producer = producer
        self._target = target
        self._is_current = is_current
        self._now_ms = now_ms
        self._reading: asyncio.Timeout | None = None

    def hurry(self) -> None:
        """End a waiting fetch, because there is other work."""
        if self._reading is not None and not self._reading.expired():
            self._reading.reschedule(asyncio.get_running_loop().time())

    async def fence(self) -> None:
        """Send InitProducerId: end each earlier owner's transaction and wait for its markers."""
        async with self._asking():
            await self._producer.start(_FENCE_S)

    async def committed(self) -> Committed:
        """Read the group's committed offset."""
        async with self._asking():
            return Committed(*await committed(self._consumer, self._target.tp))

    async def end(self) -> int:
        """Return the end offset of H, read_committed."""
        tp = self._target.tp
        async with self._asking():
            offsets: dict[TopicPartition, int] = await self._consumer.end_offsets([tp])
            return offsets[tp]

    async def seek(self, offset: int) -> int:
        """Continue at this offset, or at the earliest record; return the position."""
        tp = self._target.tp
        async with self._asking():
            if offset == _EARLIEST:
                offset = (await self._consumer.beginning_offsets([tp]))[tp]
            self._check()
            self._consumer.seek(tp, offset)
            self._consumer.resume(tp)
            return offset

    async def read(self, wait_ms: int) -> Read:
        """Wait for records, at most `wait_ms` milliseconds.

        The result is empty if no records come or if it is time to stop.
        """
        tp = self._target.tp
        self._check()
        try:
            async with asyncio.timeout(wait_ms / 1000 + _GRACE_S) as self._reading:
                fetched = await self._consumer.getmany(
                    tp, timeout_ms=wait_ms, max_records=MAX_RECORDS
                )
        except TimeoutError:  # hurried, or the group is joining again
            fetched = {}
        except KafkaError as error:
            raise LogError(type(error).__name__, kafka_error(error)) from error
        finally:
            self._reading = None
        self._check()
        records = [
            read_held(raw.offset, raw.key, raw.value, raw.timestamp, raw.headers)
            for raw in fetched.get(tp, ())
        ]
        async with self._asking():  # the position is past aborted records and markers, too
            return Read(records, await self._consumer.position(tp))

    async def append(self, emissions: Sequence[Emission], marks: Sequence[DoneMark]) -> list[int]:
        """Begin a transaction and write records.

        Returns:
            The offsets of the emissions; -1 if Kafka returned none.
        """
        target = self._target
        records = [Record(target.topic, *emission) for emission in emissions]
        now_ms = self._now_ms()
        records += [
            Record(target.held, target.partition, mark.key, b"", mark_headers(mark), now_ms)
            for mark in marks
        ]
        async with self._asking():
            await self._producer.begin()
            return (await self._producer.append(records))[: len(emissions)]

    async def send_offset(self, offset: int, metadata: str) -> None:
        """Add the group's offset to the transaction, which begins here if there is none."""
        async with self._asking():
            await self._producer.begin()
            await self._producer.send_offset(GROUP, self._target.tp, offset, metadata)

    async def end_transaction(self) -> None:
        """Send EndTxn(commit). After an error the result of the transaction is unknown."""
        async with self._asking(may_be_done=True):
            await self._producer.commit()

    @asynccontextmanager
    async def _asking(self, may_be_done: bool = False) -> AsyncIterator[None]:
        """Bound the time of a step, and translate its errors.

        Args:
            may_be_done: An error does not mean that Kafka did nothing.
        """
        self._check()
        try:
            async with asyncio.timeout(_FENCE_S + STEP_TIMEOUT_S):
                yield
        except TransactionError as error:
            label = FENCED if error.is_fenced else error.label
            is_refusal = error.is_refusal and not may_be_done
            raise LogError(label, str(error), is_refusal) from error
        except (KafkaError, OSError, TimeoutError) as error:
            raise LogError(type(error).__name__, kafka_error(error)) from error

    def _check(self) -> None:
        if not self._is_current():
            raise LogError("not_owner", "the partition belongs to another member now", True)


# ---- the owner of one partition for one epoch: one session after the other, until the term ends


_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 10.0
_LIVED_S = 30.0  # after so long a session the next failure is a new one


_NOTHING = Sum(0, 0)


class OwnerContext(NamedTuple):
    """The process around an owner.

    Attributes:
        route: Returns the topic's active route; raises LogError.
        topic_id: Returns the id of H, in hex; raises LogError.
        rules: Returns the topic's current rules; None if it is not held here any more.
        is_current: Returns whether the term of ownership lasts.
        now_ms: Wall clock, in milliseconds since 1970.
        fenced_pause_s: Long enough for the group to report another owner (rule 10), in seconds.
        turns: Turns of the process.
        report: Receives windows that have ended, as `PartitionOwner.ended`.
    """

    cluster: ClusterOptions
    transactional_id: str
    decisions: Decisions
    meter: Meter
    route: Callable[[], Route]
    topic_id: Callable[[], str]
    rules: Callable[[], CoalescingRules | None]
    is_current: Callable[[], bool]
    now_ms: Callable[[], int]
    fenced_pause_s: float
    turns: Turns
    report: Callable[[str, Sequence[Window]], None]


class PartitionOwner:
    """An owner of one partition for one epoch.

    Attributes:
        target: The partition.
        figures: Figures of the events that it holds now.
    """

    def __init__(
        self, consumer: AIOKafkaConsumer, target: HeldPartition, context: OwnerContext
    ) -> None:
        self.target = target
        self.figures = Figures(0, 0, None)
        self._consumer = consumer
        self._context = context
        self._stop = asyncio.Event()
        self._partition: KafkaHeldPartition | None = None
        self._rules = context.rules()

    def stop(self) -> None:
        """End after the current transaction."""
        self._stop.set()
        if self._partition is not None:
            self._partition.hurry()

    async def run(self) -> None:
        """Run sessions until the term ends or `stop` is called."""
        pause_s = _FIRST_PAUSE_S
        while not self._stop.is_set() and self._context.is_current():
            began = asyncio.get_running_loop().time()
            failure = await self._live()
            self.figures = Figures(0, 0, None)
            if failure is None or self._stop.is_set() or not self._context.is_current():
                continue
            self._report(failure)
            lived = asyncio.get_running_loop().time() - began > _LIVED_S
            pause_s = _FIRST_PAUSE_S if lived else min(2 * pause_s, _LONGEST_PAUSE_S)
            fenced = failure.label == FENCED
            await self.pause(max(pause_s, self._context.fenced_pause_s if fenced else 0.0))

    async def _live(self) -> LogError | None:
        context = self._context
        rules = self._rules = context.rules()
        if rules is None:
            return LogError("not_coalescing", "nothing of the topic is held here any more")
        producer: TransactionalProducer | None = None
        try:
            state = context.route().state
            producer = TransactionalProducer(
                context.cluster, context.transactional_id, state.batch_limit_bytes
            )
            self._partition = KafkaHeldPartition(
                self._consumer, producer, self.target, context.is_current, context.now_ms
            )
            await PartitionSession(self._partition, context.decisions, rules, self).run()
        except LogError as error:
            return error
        finally:
            self._partition = None
            if producer is not None:
                await producer.drop()
        return None

    def _report(self, failure: LogError) -> None:
        self._context.meter.owner_restarted(self.target.topic, failure.label)
        _, held, partition = self.target
        log.warning("coalescing %s-%d restarts: %s", held, partition, failure)

    # ---- the process around a session

    def now_ms(self) -> int:
        return self._context.now_ms()

    def is_stopping(self) -> bool:
        """Return whether the session ends, also because the topic's rules have changed."""
        return self._stop.is_set() or self._context.rules() != self._rules

    async def turn(self) -> None:
        """Wait for a turn before a piece of work, so that the owners' work never adds up."""
        await self._context.turns.take()

    async def pause(self, seconds: float) -> None:
        """Wait so many seconds, or until it is time to stop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    def route(self) -> Route:
        """Return the topic's active route.

        Raises:
            LogError: The topic cannot be written to now.
        """
        return self._context.route()

    def topic_id(self) -> str:
        """Return the id of H, in hex."""
        return self._context.topic_id()

    def ended(self, outcome: str, windows: Sequence[Window]) -> None:
        """Report windows that have ended.

        Args:
            outcome: Outcome of each window's newest event; the other events are superseded.
            windows: Windows that have ended.
        """
        sums: dict[tuple[str, str], Sum] = {}
        for window in windows:
            last = (window.last.producer, outcome)
            sums[last] = sums.get(last, _NOTHING).plus(Sum.from_record(window.last))
            for producer, more in window.superseded.items():
                other = (producer, str(OutcomeName.SUPERSEDED))
                sums[other] = sums.get(other, _NOTHING).plus(more)
        for (producer, name), total in sums.items():
            self._context.meter.coalesced(producer, self.target.topic, name, *total)
        self._context.report(outcome, windows)
