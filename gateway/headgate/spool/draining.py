"""The way of spooled events to disk and back to Kafka, in order for each lane, at a limited rate.

The oldest chunks of a lane are read together and put into the lane; the next ones follow when all
of these events have ended. Events without acknowledgement are put again, in order. If the result of
an event is unknown, it may be in the log twice, with the same event id. The rate is the rate of new
events to disk plus `drain_events_per_s`. So a backlog always shrinks, however busy its topic is.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from headgate.backends.base import Lanes, Topics
from headgate.metrics.meter import Meter
from headgate.model.keys import choose_partition
from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason
from headgate.model.publish import Publish, Record
from headgate.model.record import SPOOLED, size_of
from headgate.model.suppression import Reservation
from headgate.model.text import counted
from headgate.model.topics import TopicState
from headgate.spool.backlog import (
    MAX_BYTES,
    MAX_EVENTS,
    Backlog,
    Backlogs,
    DrainUnit,
    DualWrite,
    Waiting,
)
from headgate.spool.database import Append, JournalError, Packed, Stored
from headgate.spool.disk import Disk
from headgate.spool.spool import Spool
from headgate.tracing.spans import Attributes, Carried, LaterSpans, add_position, carried

log = logging.getLogger("headgate.spool")

# ---- spans of spooled events on their way to Kafka, if requests are traced


class _Piece:
    """A request's events in a unit.

    Attributes:
        left: Number of events without an end.
        position: Partition and offset of the last event in Kafka.
    """

    __slots__ = ("began_ns", "error", "events", "left", "of", "position")

    def __init__(self, of: Carried, began_ns: int) -> None:
        self.of = of
        self.began_ns = began_ns
        self.events = self.left = 0
        self.position = (-1, -1)
        self.error = ""


class DrainSpans:
    """Spans of drained events: one for each request with events in a unit.

    A span lasts from the read until the end of the last event, through all attempts.
    """

    def __init__(self, spans: LaterSpans) -> None:
        self._spans = spans
        self._open: dict[DrainUnit, dict[int, _Piece]] = {}

    def read(self, unit: DrainUnit) -> None:
        """Begin the spans of a unit that goes to Kafka now."""
        by_request = dict[Carried, _Piece]()
        pieces = dict[int, _Piece]()
        for at, row in unit.rows.items():
            of = carried(row.event[2])
            if of is None:
                continue
            piece = by_request.get(of)
            if piece is None:
                piece = by_request[of] = _Piece(of, self._spans.clock_ns())
            piece.events += 1
            piece.left += 1
            pieces[at] = piece
        if pieces:
            self._open[unit] = pieces

    def ended(self, unit: DrainUnit, at: int, outcome: Outcome, error: str = "") -> None:
        """Note an event that Kafka has acknowledged, or refused for good.

        Args:
            unit: DrainUnit of the event.
            at: Index of the event.
            outcome: Outcome of the event.
            error: Reason of the refusal.
        """
        pieces = self._open.get(unit, {})
        piece = pieces.pop(at, None)
        if piece is None:
            return
        if not pieces:
            del self._open[unit]
        piece.position, piece.error = (outcome.partition, outcome.offset), piece.error or error
        piece.left -= 1
        if not piece.left:
            topic = unit.backlog.topic
            attributes: Attributes = {
                "messaging.system": "kafka",
                "messaging.destination.name": topic,
                "headgate.spooled_ms": unit.at_ms,
            }
            add_position(attributes, piece.events, piece.position)
            self._spans.end(piece.of, f"drain {topic}", piece.began_ns, attributes, piece.error)


# ---- group commit: all waiting events go to disk in one transaction


_RETRY_AFTER_S: Final = 5
_RETRY_S: Final = 1.0
_MAX_CHUNKS: Final = 200  # of one commit: events that come meanwhile wait for the next


class Done(NamedTuple):
    """A chunk that is no longer needed on disk.

    Attributes:
        number: Number of the chunk.
        placed_by: Partition count that placed its events.
        events: Number of its events.
    """

    number: int
    backlog: Backlog
    placed_by: int
    events: int


class Writing:
    """The writer of the spool.

    Args:
        spool: The spool.
        disk: Disk of the spool.
        clock_ms: Wall clock, in milliseconds since 1970.
        came: Called with the number of events that came to disk.
        news: Set by the spool when there may be events to write.
        meter: Metrics of spooled events.

    Attributes:
        aside: Events that Kafka refused for good, each with the reason. The next commit writes
            them, at the latest the one that deletes their chunk.
    """

    def __init__(
        self,
        spool: Spool,
        disk: Disk,
        clock_ms: Callable[[], int],
        came: Callable[[int], None],
        news: asyncio.Event,
        meter: Meter,
    ) -> None:
        self._meter = meter
        self._spool = spool
        self._backlogs = spool.backlogs
        self._disk = disk
        self._clock_ms = clock_ms
        self._came = came
        self._done: list[Done] = []
        self.aside: list[tuple[Append, str]] = []
        self._news = news

    def watch(self, publish: Publish) -> None:
        """Watch a record that goes back to a lane, which may be slow."""
        record = publish.record
        self._spool.watch(self._backlogs.of(record.topic, record.partition))

    def finished(self, unit: DrainUnit) -> None:
        """Delete the chunks of a unit that is published."""
        backlog = unit.backlog
        backlog.unit, backlog.is_flowing = None, True
        for number, count, size in unit.chunks:
            self._forget(backlog, number, count, size, unit.placed_by, unit.at_ms)
        self._news.set()

    def gone(self, backlog: Backlog, chunk: tuple[int, int, int], placed_by: int) -> None:
        """Remove an unread chunk that was set aside from the counts.

        Args:
            backlog: Backlog of the chunk.
            chunk: Number, events and bytes of the chunk.
            placed_by: Partition count of the chunk.
        """
        _, count, size = chunk
        backlog.left -= count
        backlog.done(count, size, 0)
        backlog.count(placed_by, -count)
        self._disk.bytes -= size

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            if not await self.write():
                self._news.set()
                await asyncio.sleep(_RETRY_S)

    async def write(self) -> bool:
        """Write all waiting events.

        Returns:
            False if the disk does not take the deletions, which can wait.
        """
        while True:
            self._end_dual_writes()
            waiting = self._take()
            done, self._done = self._done, []
            aside, self.aside = self.aside, []
            if not waiting and not done and not aside:
                return True
            if not await self._commit(waiting, done, aside) and not waiting:
                return False

    def _take(self) -> list[tuple[Backlog, Waiting]]:
        """Take the events for the next commit.

        In each topic, events that were placed by an earlier partition count come first. So a start
        can derive the order of the counts from the chunks' numbers.
        """
        taken = list[tuple[Backlog, Waiting]]()
        age, oldest = 0, 0
        while age <= oldest:
            for backlog in self._backlogs:
                while backlog.waiting and len(taken) < _MAX_CHUNKS:
                    if (later := backlog.age_of(backlog.waiting[0].partitions)) > age:
                        oldest = max(oldest, later)
                        break
                    chunk = backlog.waiting.popleft()
                    backlog.writing.append(chunk)
                    taken.append((backlog, chunk))
            age += 1
        return taken

    async def _commit(
        self,
        waiting: list[tuple[Backlog, Waiting]],
        done: list[Done],
        aside: list[tuple[Append, str]],
    ) -> bool:
        at_ms = self._clock_ms()
        appends = [
            Append(
                backlog.topic,
                backlog.partition,
                chunk.partitions,
                at_ms,
                [publish.record for publish in chunk.publishes],
            )
            for backlog, chunk in waiting
        ]
        try:
            written = await self._disk.commit(appends, [chunk.number for chunk in done], aside)
        except JournalError as error:
            self._done += done
            self.aside += aside
            self._not_written(waiting, error)
            return False
        except BaseException as error:
            self._not_written(waiting, JournalError(repr(error), is_certain=False))
            raise
        for (backlog, chunk), (number, size) in zip(waiting, written, strict=True):
            self._written(backlog, chunk, number, size, at_ms)
        for each in done:
            each.backlog.forgetting -= 1
            each.backlog.ended.discard(each.number)
            each.backlog.count(each.placed_by, -each.events)
        for backlog in dict.fromkeys(each.backlog for each in done):
            self._spool.emptied(backlog)
        return True

    def _written(
        self, backlog: Backlog, chunk: Waiting, number: int, size: int, at_ms: int
    ) -> None:
        count = len(chunk.publishes)
        self._ended(backlog, chunk)
        backlog.stored(count, size, at_ms)
        self._disk.bytes += size
        if chunk.dual_write is None:
            backlog.left += count
            self._came(count)
        else:
            chunk.dual_write.size = size
            chunk.dual_write.placed_by = chunk.partitions
        self._spool.written(chunk, number)

    def _not_written(self, waiting: list[tuple[Backlog, Waiting]], error: JournalError) -> None:
        for backlog, chunk in waiting:
            self._ended(backlog, chunk)
            backlog.count(chunk.partitions, -len(chunk.publishes))
            if chunk.dual_write is not None:
                backlog.dual_writes.remove(chunk.dual_write)
            self._spool.not_written(chunk, _failure(error))
        for backlog, chunk in reversed(waiting):
            if chunk.dual_write is not None and backlog.waiting:
                self._spool.try_again(backlog, chunk.dual_write)

    def _ended(self, backlog: Backlog, chunk: Waiting) -> None:
        backlog.writing.remove(chunk)
        self._disk.coming -= chunk.bytes

    def _end_dual_writes(self) -> None:
        """End the dual writes whose events have all ended: publish them again, or delete them."""
        for backlog in self._backlogs:
            for dual_write in [
                each for each in backlog.dual_writes if each.number is not None and not each.open
            ]:
                backlog.dual_writes.remove(dual_write)
                self._end_dual_write(backlog, dual_write)

    def _end_dual_write(self, backlog: Backlog, dual_write: DualWrite) -> None:
        assert dual_write.number is not None
        if dual_write.must_repeat:
            backlog.left += dual_write.count
            if dual_write.landed:
                backlog.landed[dual_write.number] = dual_write.landed
        else:  # Kafka acknowledged the producer's copies after all
            self._meter.drained(backlog.topic, dual_write.count)
            backlog.ended.add(dual_write.number)
            self._forget(
                backlog,
                dual_write.number,
                dual_write.count,
                dual_write.size,
                dual_write.placed_by,
                0,
            )

    def _forget(
        self, backlog: Backlog, number: int, count: int, size: int, placed_by: int, at_ms: int
    ) -> None:
        self._done.append(Done(number, backlog, placed_by, count))
        backlog.forgetting += 1
        self._disk.bytes -= size
        backlog.done(count, size, at_ms)


def _failure(error: JournalError) -> Failure:
    detail = f"Kafka takes nothing in time, and the spool could not be written: {error}"
    reason = Reason.KAFKA_UNAVAILABLE if error.is_certain else Reason.UNKNOWN
    return Failure(reason, detail, retry_after_s=_RETRY_AFTER_S)


_STEP_S: Final = 0.01  # between turns while there is work
_IDLE_S: Final = 0.1
_PAUSE_S: Final = 0.5  # of a lane after a failed event
_OVERTAKEN: Final = "the index on disk was damaged, and later events went before"
_SAVED_S: Final = 0.1  # largest allowance, as seconds of the rate
_PASSES: Final = frozenset((Reason.UNKNOWN, Reason.KAFKA_UNAVAILABLE, Reason.UNKNOWN_TOPIC,
                            Reason.OVERLOADED, Reason.DRAINING))  # fmt: skip


class Allowance:
    """A limit on the rate of drained events.

    Args:
        per_s: Events per second in addition to the rate of new events to disk (`came`), averaged
            over about a second.
        clock: Monotonic clock, in seconds.
    """

    def __init__(self, per_s: int, clock: Callable[[], float]) -> None:
        self._per_s = per_s
        self._clock = clock
        self._at_s = clock()
        self._left = self._coming_per_s = 0.0
        self._came = 0

    def came(self, events: int) -> None:
        """Count events that came to disk."""
        self._came += events

    def left(self) -> float:
        """Return how many events may go now; draining pauses while it is negative."""
        now_s = self._clock()
        passed_s = now_s - self._at_s
        if passed_s >= _STEP_S:
            share = min(1.0, passed_s)
            self._coming_per_s += (self._came / passed_s - self._coming_per_s) * share
            self._came, self._at_s = 0, now_s
            per_s = self._per_s + self._coming_per_s
            self._left = min(self._left + per_s * passed_s, per_s * _SAVED_S)
        return self._left

    def take(self, events: int) -> None:
        """Spend the allowance of events that go now."""
        self._left -= events


class Draining:
    """The drain of spooled events to Kafka.

    While Kafka was away, a topic may have been recreated or may have grown. So its events go on
    only after a reading of the topics that began after the wait.

    Args:
        backlogs: Backlogs of all lanes.
        disk: Disk of the spool.
        writing: Writer of the spool.
        lanes: Lanes to Kafka.
        topics: Topics of the clusters.
        healthy: Returns whether a cluster takes records.
        is_fresh: See `KafkaTopics`.
        allowance: Limit on the rate.
        clock: Monotonic clock, in seconds.
        meter: Metrics of spooled events.
        spans: Spans if requests are traced.
    """

    def __init__(
        self,
        backlogs: Backlogs,
        disk: Disk,
        writing: Writing,
        lanes: Lanes,
        topics: Topics,
        healthy: Callable[[str], bool],
        is_fresh: Callable[[str, float], bool],
        allowance: Allowance,
        clock: Callable[[], float],
        meter: Meter,
        spans: DrainSpans | None = None,
    ) -> None:
        self._spans = spans
        self._backlogs = backlogs
        self._disk = disk
        self._writing = writing
        self._lanes = lanes
        self._topics = topics
        self._healthy = healthy
        self._is_fresh = is_fresh
        self._waits_since: dict[str, float] = {}
        self._allowance = allowance
        self._clock = clock
        self._meter = meter
        self._suppression = backlogs.suppression()
        self._paused: dict[Backlog, float] = {}

    async def run(self) -> None:
        """Drain until cancelled."""
        while True:
            moved = await self.turn()
            await asyncio.sleep(_STEP_S if moved else _IDLE_S)

    async def turn(self) -> bool:
        """Put the next events of all lanes that may go; return whether any went."""
        moved = False
        if not self._backlogs.topics:
            self._waits_since.clear()
        for backlog in self._backlogs:
            is_ready = backlog.left or (backlog.unit is not None and backlog.unit.is_stuck)
            if is_ready and await self._advance(backlog):
                self._backlogs.move_last(backlog)
                moved = True
        return moved

    async def _advance(self, backlog: Backlog) -> bool:
        """Put the lane's next events if they may go; return whether they went."""
        state = self._topics.get(backlog.topic)
        if state is None or not self._may_go(backlog, state) or self._allowance.left() <= 0:
            return False
        unit = backlog.unit
        if unit is None:
            try:
                unit = backlog.unit = await self._read(backlog)
            except JournalError:  # `Disk` has logged it
                self._paused[backlog] = self._clock() + _PAUSE_S
            if unit is None:
                return False
        elif unit.open:  # the rest of the unit is under way
            return False
        state = self._topics.get(backlog.topic)  # the topic may have changed during the read
        return state is not None and self._put(unit, state)

    def _may_go(self, backlog: Backlog, state: TopicState) -> bool:
        if self._paused:
            if self._paused.get(backlog, 0.0) > self._clock():
                return False
            self._paused.pop(backlog, None)
        topic, now_s = backlog.topic, self._clock()
        since_s = self._waits_since.setdefault(topic, now_s)
        if not self._healthy(state.cluster):
            self._waits_since[topic] = now_s
            return False
        if backlog.partition < state.partitions:
            refused = self._lanes.refusal(state, backlog.partition)
            if refused is not None:
                if refused.reason is Reason.KAFKA_UNAVAILABLE:
                    self._waits_since[topic] = now_s
                return False
        if not backlog.is_due(next(iter(backlog.counts))):
            return False
        return self._is_fresh(state.cluster, since_s)

    async def _read(self, backlog: Backlog) -> DrainUnit | None:
        limits = (MAX_EVENTS, MAX_BYTES)
        position = (backlog.topic, backlog.partition)
        expected, before = backlog.left, backlog.next_dual_write()
        ended = frozenset(backlog.ended)
        read = await self._disk.read(*position, backlog.last_read, before, limits)
        if not read and before is None and backlog.left == expected:
            await self._look_for(backlog, expected)
        pending = [chunk for chunk in read if chunk.number not in ended]
        good = [chunk for chunk in pending if chunk.packed is not None]
        others = sum([chunk.events for chunk in good])
        for chunk in pending:  # this may fail, and events may come: take nothing before
            if chunk.packed is None:
                await self._set_aside(backlog, chunk, others)
        # Events of an earlier count may be published, but not deleted yet.
        if not good or not backlog.is_due(good[0].partitions):
            return None
        events, chunks, at_ms = list[Packed](), list[tuple[int, int, int]](), 0
        for chunk in good:
            assert chunk.packed is not None
            backlog.last_read = chunk.number
            backlog.left -= chunk.events
            landed = backlog.landed.pop(chunk.number, ())
            events += [
                event for position, event in enumerate(chunk.packed) if position not in landed
            ]
            chunks.append((chunk.number, chunk.events, chunk.bytes))
            at_ms = at_ms or chunk.at_ms
        if not events:
            return None
        unit = DrainUnit(backlog, chunks, events, good[0].partitions, at_ms, self._ended)
        if self._spans is not None:
            self._spans.read(unit)
        return unit

    async def _set_aside(
        self, backlog: Backlog, chunk: Stored, others: int, reason: str = "damaged"
    ) -> None:
        """Set a chunk aside.

        Args:
            backlog: Backlog of the chunk.
            chunk: The chunk.
            others: Number of other events that remain in the backlog.
            reason: Reason for people.
        """
        log.error(
            "spool: %s of %s-%d set aside: %s",
            counted(chunk.events, "event"),
            backlog.topic,
            backlog.partition,
            reason,
        )
        await self._disk.set_aside(chunk.number, reason)
        # The damage may be in the row's columns.
        is_known = chunk.partitions in backlog.counts
        placed_by = chunk.partitions if is_known else next(iter(backlog.counts))
        events = max(0, min(chunk.events, backlog.left - others))
        self._writing.gone(backlog, (chunk.number, events, chunk.bytes), placed_by)
        self._meter.set_aside(backlog.topic, events)

    async def _look_for(self, backlog: Backlog, expected: int) -> None:
        """Look in the table for events that the index lacks.

        The chunks that are found are published, unless later events have overtaken them.

        Args:
            backlog: Backlog of the events.
            expected: Number of unread events when the index had no more.
        """
        if backlog.forgetting:  # the table still has published chunks
            return
        chunks = await self._disk.overlooked(backlog.topic, backlog.partition)
        if backlog.left != expected:
            return
        if not chunks:
            self._miss(backlog)
        for chunk in chunks:
            if chunk.number <= backlog.last_read:
                await self._set_aside(backlog, chunk, 0, _OVERTAKEN)

    def _miss(self, backlog: Backlog) -> None:
        """Give up events that are missing on disk."""
        lost = backlog.left
        log.error(
            "spool: %s of %s-%d missing on disk",
            counted(lost, "event"),
            backlog.topic,
            backlog.partition,
        )
        for placed_by, events in list(backlog.counts.items()):
            self._writing.gone(backlog, (0, min(events, backlog.left), 0), placed_by)
        self._meter.set_aside(backlog.topic, lost)

    def _put(self, unit: DrainUnit, state: TopicState) -> bool:
        rows, scope = unit.rows, self._backlogs.scope_of(unit.backlog.topic)
        if scope is not None and not self._suppression.let_pass(scope, len(rows)):
            return False  # later: the topic is announced as long as it has spooled events
        repeats = 0
        for at, row in rows.items():
            publish = _publish(unit, row.event, state)
            if scope is not None:
                publish.reservation = Reservation(scope, state.partitions)
            repeats += row.is_repeat
            row.is_repeat = False
            unit.open[publish] = at
        if repeats:
            self._meter.repeated(unit.backlog.topic, repeats)
        unit.put_s = self._clock()
        self._allowance.take(len(rows))
        for publish in list(unit.open):
            self._writing.watch(publish)
            self._lanes.put(publish)
        return True

    def _ended(self, unit: DrainUnit, at: int, outcome: Outcome) -> None:
        """Handle the end of a unit's event in its lane.

        Args:
            unit: DrainUnit of the event.
            at: Index of the event.
            outcome: Outcome of the event.
        """
        backlog, failure = unit.backlog, outcome.failure
        if outcome.name is OutcomeName.PUBLISHED:
            del unit.rows[at]
            self._meter.drained(backlog.topic, 1)
            if self._spans is not None:
                self._spans.ended(unit, at, outcome)
        elif failure is None or failure.reason in _PASSES:
            unit.rows[at].is_repeat = outcome.name is OutcomeName.UNKNOWN
            now_s = self._clock()
            self._paused[backlog], backlog.is_flowing = now_s + _PAUSE_S, False
            self._waits_since[backlog.topic] = now_s
        else:
            self._refused(unit, at, f"{failure.reason}: {failure.detail}")
            if self._spans is not None:
                self._spans.ended(unit, at, outcome, str(failure.reason))
        if not unit.rows:
            self._writing.finished(unit)

    def _refused(self, unit: DrainUnit, at: int, why: str) -> None:
        """Set an event aside that Kafka refused for good, so that it does not block its lane.

        Args:
            unit: DrainUnit of the event.
            at: Index of the event.
            why: Reason for people.
        """
        backlog, row = unit.backlog, unit.rows.pop(at)
        log.error(
            "spool: Kafka refused an event of %s-%d, which is set aside: %s",
            backlog.topic,
            backlog.partition,
            why,
        )
        self._meter.set_aside(backlog.topic, 1)
        key, value, headers, timestamp_ms = row.event
        record = Record(backlog.topic, backlog.partition, key, value, headers, timestamp_ms)
        append = Append(backlog.topic, backlog.partition, unit.placed_by, unit.at_ms, [record])
        self._writing.aside.append((append, why))


def _publish(unit: DrainUnit, event: Packed, state: TopicState) -> Publish:
    key, value, headers, timestamp_ms = event
    partition = unit.backlog.partition
    if unit.placed_by != state.partitions:
        partition = choose_partition(key, partition, state.partitions)
    headers = [*headers, (SPOOLED, b"%d" % unit.at_ms)]
    record = Record(state.name, partition, key, value, headers, timestamp_ms)
    publish = Publish(record, size_of(key, value, headers), None, 0, None)
    publish.owner = unit
    return publish
