"""The spool in front of the lanes: it sends each event to its lane or to disk.

An event of a topic with `spool = true` goes to disk instead of its lane
- if events of its lane are on disk already, because it must not overtake them;
- if the lane takes nothing now.
It goes from its lane to disk
- after `spool_after_ms`. The spool withdraws it from the lane. If the producer has it already (a
  `DualWrite`), the spool writes it as well, in case it ends without acknowledgement;
- if it ends without acknowledgement, for a temporary reason.

This module never awaits. `draining.Writing` writes the backlogs' waiting events to disk, and
`draining.Draining` brings them back.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from headgate.backends.base import Lanes
from headgate.ingest.complete import Reports
from headgate.model.outcome import Failure, Reason
from headgate.model.publish import Publish, Stage, count_of, place_again
from headgate.model.route import BEHIND
from headgate.model.topics import TopicState
from headgate.spool.backlog import (
    Backlog,
    Backlogs,
    DrainUnit,
    DualWrite,
    Waiting,
    on_its_way_since,
)
from headgate.spool.disk import Disk

# ---- partition counts of events: the topic may have grown since they were placed


def by_count(publishes: Iterable[Publish]) -> list[list[Publish]]:
    """Split events into parts, in order, each placed by one partition count."""
    parts = list[list[Publish]]()
    for publish in publishes:
        if not parts or count_of(parts[-1][0]) != count_of(publish):
            parts.append([])
        parts[-1].append(publish)
    return parts


# ---- events with the producer and on disk at once: each has one result for its client
#
# The acknowledgement or the commit to disk ends the request, whichever comes first. If Kafka
# acknowledges the events, the chunk is deleted. If it does not, the chunk is published later.


def is_open(publish: Publish) -> bool:
    """Return whether a request still waits for the event's result."""
    ticket = publish.ticket
    return ticket is not None and ticket.outcomes[publish.index] is None


def worse(failure: Failure | None, of_disk: Failure) -> Failure:
    """Return the failure of an event that the disk did not take.

    Args:
        failure: Failure in the lane; None if there was none.
        of_disk: Failure of the disk.
    """
    return of_disk if failure is None or of_disk.reason is Reason.UNKNOWN else failure


class DualWrites:
    """All dual writes: events on disk whose result from the producer is unknown."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._of: dict[Publish, DualWrite] = {}

    def __contains__(self, publish: Publish) -> bool:
        return publish in self._of

    def begin(self, backlog: Backlog, publishes: Iterable[Publish]) -> list[Waiting]:
        """Create dual writes for events that the producer has and that go to disk now.

        Args:
            backlog: Backlog of the events.
            publishes: The events.

        Returns:
            One chunk for each partition count.
        """
        waiting = list[Waiting]()
        for some in by_count(publishes):
            dual_write = DualWrite(some)
            backlog.dual_writes.append(dual_write)
            for publish in some:
                self._of[publish] = dual_write
                publish.spooled = True
            waiting.append(Waiting(some, count_of(some[0]), dual_write))
        return waiting

    def acknowledged(self, batch: Sequence[Publish]) -> None:
        """Note events that Kafka has acknowledged and whose requests have ended."""
        if self._of:
            for publish in batch:
                dual_write = self._of.pop(publish, None)
                if dual_write is not None:
                    dual_write.landed.add(dual_write.open.pop(publish))

    def failed(self, publish: Publish, failure: Failure) -> bool:
        """Note an event that ended in its lane without acknowledgement.

        Args:
            publish: The event.
            failure: Its failure in the lane.

        Returns:
            False if the event belongs to no dual write.
        """
        dual_write = self._of.pop(publish, None)
        if dual_write is None:
            return False
        del dual_write.open[publish]
        dual_write.must_repeat = True
        if dual_write.number is None:
            dual_write.failed[publish] = failure
        else:
            self._reports.spooled((publish,), failure.reason is not Reason.UNKNOWN)
        return True

    def written(self, dual_write: DualWrite, publishes: Sequence[Publish], number: int) -> None:
        """Report the events of a chunk that is on disk.

        Args:
            dual_write: Dual write of the events.
            publishes: The events.
            number: Number of the chunk.
        """
        dual_write.number = number
        if dual_write.open:
            self._reports.spooled_in_flight(
                [event for event in publishes if event in dual_write.open]
            )
        for publish, failure in dual_write.failed.items():
            self._reports.spooled((publish,), failure.reason is not Reason.UNKNOWN)
        dual_write.failed.clear()

    def not_written(self, dual_write: DualWrite, of_disk: Failure) -> None:
        """Leave the results of events that the disk did not take to their lane.

        Args:
            dual_write: Dual write of the events.
            of_disk: Failure of the disk.
        """
        for publish in dual_write.open:
            del self._of[publish]
            publish.spooled = of_disk.reason is Reason.UNKNOWN
        for publish, failure in dual_write.failed.items():
            self._reports.failed((publish,), worse(failure, of_disk))


_PASSES: Final = frozenset((Reason.UNKNOWN, Reason.KAFKA_UNAVAILABLE))
_ENDING_S: Final = 2.0  # `spool_after_ms` of a topic that no longer spools
_TAKEN_OUT: Final = Failure(
    Reason.KAFKA_UNAVAILABLE, "its lane takes nothing now; nothing was written", retry_after_s=1
)


class Spool:
    """A spool: `base.Lanes` for the producers of events, `base.Deliveries` for the lanes.

    Args:
        backlogs: Backlogs of all lanes.
        disk: Disk of the spool.
        reports: Receiver of results.
        after_s: Returns the time that Kafka may take for events of a topic, in seconds; None if
            the topic does not spool.
        clock: Monotonic clock, in seconds, as for `Ticket.arrived`.
        wake: Called when there is work for the writer.
        state_of: Returns the last known state of a topic.
        open_lanes: Makes the lanes behind this spool, which report to the listener that it gets.

    Attributes:
        lanes: The lanes behind this spool.
    """

    def __init__(
        self,
        backlogs: Backlogs,
        disk: Disk,
        reports: Reports,
        after_s: Callable[[str], float | None],
        clock: Callable[[], float],
        wake: Callable[[], None],
        state_of: Callable[[str], TopicState | None],
        open_lanes: Callable[["Spool"], Lanes],
    ) -> None:
        self._state_of = state_of
        self.backlogs = backlogs
        self._disk = disk
        self._reports = reports
        self._after_s = after_s
        self._clock = clock
        self._wake = wake
        self._dual_writes = DualWrites(reports)
        self._watched: list[Backlog] = []
        self.lanes = open_lanes(self)

    # ---- base.Lanes

    def refusal(self, state: TopicState, partition: int) -> Failure | None:
        """Return the failure of an event that can go neither to its lane nor to disk."""
        backlogs, topic = self.backlogs, state.name
        refused = self.lanes.refusal(state, partition)
        if not self._spools(topic):
            return refused
        if refused is None and not self._disk.is_in_use:
            backlog = backlogs.get(topic, partition)
            if backlog is None or not backlogs.must_wait(backlog, state.partitions):
                return None
        return self._disk.refusal()

    def put(self, publish: Publish) -> None:
        """Take an event in arrival order."""
        record, common = publish.record, publish.common
        topic = record.topic
        if common is None or not self._spools(topic):
            self.lanes.put(publish)
            return
        backlog, count = self.backlogs.of(topic, record.partition), count_of(publish)
        if publish.owner is not None:  # one of several records of an event
            if backlog.gate or self.backlogs.must_wait(backlog, count):
                publish.advance(Stage.ENDED)
                self._reports.failed((publish,), BEHIND)
            else:
                self.lanes.put(publish)
            return
        if backlog.gate or self.backlogs.must_wait(backlog, count):
            if self.backlogs.may_wait(backlog, count):
                publish.advance(Stage.LANE)
                backlog.gate.append(publish)
            else:
                backlog, count = self.backlogs.backlog_behind(backlog, record.key, count)
                self._store_behind(backlog, publish, count)
            return
        self._put(backlog, publish, common.route.lane)

    def _put(self, backlog: Backlog, publish: Publish, state: TopicState) -> None:
        refused = self.lanes.refusal(state, backlog.partition)
        if refused is not None and self._disk.refusal() is None:
            self._store_behind(backlog, publish, count_of(publish))
            return
        self.watch(backlog)
        self.lanes.put(publish)

    def watch(self, backlog: Backlog) -> None:
        """Watch a backlog with events in the lane: `sweep` withdraws them if the lane is slow."""
        if not backlog.is_watched:
            backlog.is_watched = True
            self._watched.append(backlog)

    def withdraw(self, topic: str, partition: int) -> tuple[list[Publish], list[Publish]]:
        """Withdraw the events of a lane (`base.Lanes`)."""
        return self.lanes.withdraw(topic, partition)

    def oldest_event(self, topic: str, partition: int) -> Publish | None:
        """Return the oldest event of a lane (`base.Lanes`)."""
        return self.lanes.oldest_event(topic, partition)

    # ---- base.Deliveries

    def handed_over(self, batch: Sequence[Publish]) -> None:
        """Report events that the producer has (`base.Deliveries`)."""
        self._reports.handed_over(batch)

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """Report events that Kafka has acknowledged (`base.Deliveries`)."""
        self._reports.acknowledged(batch, base_offset)
        if self.backlogs.topics:
            self._dual_writes.acknowledged(batch)
            self._wake()

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        """Spool events that failed for a temporary reason, and report the others."""
        topic, partition = batch[0].record.topic, batch[0].record.partition
        if not self._spools(topic) or failure.reason not in _PASSES:
            self._end(batch, failure)
            return
        reported, stored = list[Publish](), list[Publish]()
        state = self._state_of(topic)
        for publish in batch:
            if self._dual_writes.failed(publish, failure):
                continue
            # If another count placed the event, later events of its key may have gone before: the
            # client must send it again.
            if is_open(publish) and (state is None or count_of(publish) == state.partitions):
                stored.append(publish)
            else:
                reported.append(publish)
        backlog = self.backlogs.of(topic, partition)
        if stored and self._disk.refusal() is None:
            self.backlogs.begin(topic)
            for some in by_count(stored):
                self._take(backlog, Waiting(some, count_of(some[0]), None, failure))
        else:
            reported = [event for event in batch if event in {*reported, *stored}]
        # Later events must not overtake them. In a topic that has grown, a lane has spooled events
        # of other lanes' backlogs.
        is_drained = any(isinstance(event.owner, DrainUnit) for event in batch)
        if stored or is_drained:
            self._withdraw(backlog, in_any_case=is_drained)
        if reported:
            self._reports.failed(reported, failure)
        self._wake()

    # ---- events that have waited for too long

    def sweep(self) -> None:
        """Withdraw events that have been in their lanes for too long. Call it often."""
        now_s, watched = self._clock(), self._watched
        self._watched = []
        for backlog in watched:
            head = self.lanes.oldest_event(backlog.topic, backlog.partition)
            if head is None:
                backlog.is_watched = False
                continue
            self._watched.append(backlog)
            if (
                now_s - on_its_way_since(head, now_s) >= self._time_of(backlog.topic)
                and self._disk.refusal() is None
            ):
                self._withdraw(backlog)
        for backlog in self.backlogs:
            if backlog.gate:
                self._look_at_gate(backlog, now_s)
        self.backlogs.tidy()

    def emptied(self, backlog: Backlog) -> None:
        """Open the gate of a backlog if the journal has deleted the last of its events."""
        if backlog.is_behind:
            return
        gate, backlog.gate = backlog.gate, deque()
        for publish in gate:
            if publish.dropped:
                continue
            state = self._state_of(backlog.topic)
            if state is not None and place_again(publish, state):
                self.put(publish)  # the topic changed while the event waited
            elif backlog.is_behind:  # the lane takes no more events
                self._store_behind(backlog, publish, count_of(publish))
            else:
                assert publish.common is not None  # the event came with a request
                self._put(backlog, publish, publish.common.route.lane)

    def topic_changed(self, before: TopicState | None, after: TopicState | None) -> None:
        """Withdraw the events of a recreated topic from its lanes, which end.

        The events are placed again when they are drained. Events with the producer still end there,
        but no later event of their keys overtakes them.

        Args:
            before: Earlier state of the topic; None if it is new.
            after: Present state of the topic; None if it is deleted.
        """
        if before is None or after is None or after.topic_id == before.topic_id:
            return
        if not self._spools(before.name):
            return
        for partition in range(before.partitions):
            if self.lanes.oldest_event(before.name, partition) is not None:
                self._withdraw(self.backlogs.of(before.name, partition))

    def shut(self) -> None:
        """Send the events at the gates to disk after the lanes are closed."""
        for backlog in self.backlogs:
            self._end_gate(backlog)

    def _look_at_gate(self, backlog: Backlog, now_s: float) -> None:
        if not backlog.is_behind:
            self.emptied(backlog)
            return
        waited_s = now_s - on_its_way_since(backlog.gate[0], now_s)
        if not backlog.is_closing or waited_s >= self._time_of(backlog.topic):
            self._end_gate(backlog)

    def _end_gate(self, backlog: Backlog) -> None:
        gate, backlog.gate = backlog.gate, deque()
        for publish in gate:
            if not publish.dropped:
                self._store(backlog, publish, count_of(publish))

    def _spools(self, topic: str) -> bool:
        """Return whether a topic spools, or still has events on disk from before a reload."""
        return self._after_s(topic) is not None or self.backlogs.is_behind(topic)

    def _time_of(self, topic: str) -> float:
        after_s = self._after_s(topic)
        return _ENDING_S if after_s is None else after_s

    def _withdraw(self, backlog: Backlog, *, in_any_case: bool = False) -> None:
        backlog.is_flowing = False
        takes = self._disk.refusal() is None
        if not takes and not in_any_case:
            return  # without the disk they stay in the lane
        handed, queued = self.lanes.withdraw(backlog.topic, backlog.partition)
        crossing = [event for event in handed if is_open(event) and event not in self._dual_writes]
        if crossing and takes:
            self.backlogs.begin(backlog.topic)
            for waiting in self._dual_writes.begin(backlog, crossing):
                self._take(backlog, waiting)
        drained, foreign = list[Publish](), list[Publish]()
        for publish in queued:
            if isinstance(publish.owner, DrainUnit):
                publish.owner.withdrawn(publish)
                drained.append(publish)
            elif self._dual_writes.failed(publish, _TAKEN_OUT):
                continue  # the producer returned the event: it is published from disk
            elif publish.owner is None and takes and not publish.dropped:
                self._store(backlog, publish, count_of(publish))
            elif not publish.dropped:
                foreign.append(publish)
        self._end_gate(backlog)
        if drained:
            self._reports.withdrawn(drained)
        if foreign:
            for publish in foreign:
                publish.advance(Stage.ENDED)
            self._reports.failed(foreign, _TAKEN_OUT)
        self._wake()

    def _store_behind(self, backlog: Backlog, publish: Publish, partitions: int) -> None:
        """Store an event behind all events of its lane, its backlog and the gate."""
        if not backlog.is_behind:
            self._withdraw(backlog)
        self._end_gate(backlog)
        self._store(backlog, publish, partitions)

    def _store(self, backlog: Backlog, publish: Publish, partitions: int) -> None:
        publish.advance(Stage.STORING)
        self.backlogs.begin(backlog.topic)
        backlog.add(publish, partitions)
        self._disk.coming += publish.size
        self._wake()

    def _take(self, backlog: Backlog, waiting: Waiting, *, first: bool = False) -> None:
        backlog.take(waiting, first=first)
        self._disk.coming += waiting.bytes

    def _end(self, batch: Sequence[Publish], failure: Failure) -> None:
        """Report events that failed for good.

        Events whose requests have ended as spooled are tried once more, from disk, and then set
        aside.
        """
        reported = [publish for publish in batch if not self._dual_writes.failed(publish, failure)]
        if reported:
            self._reports.failed(reported, failure)
        self._wake()

    def written(self, waiting: Waiting, number: int) -> None:
        """Report the events of a chunk that is on disk.

        Args:
            waiting: Events of the chunk.
            number: Number of the chunk.
        """
        if waiting.dual_write is not None:
            self._dual_writes.written(waiting.dual_write, waiting.publishes, number)
            return
        unknown = waiting.failure is not None and waiting.failure.reason is Reason.UNKNOWN
        self._reports.spooled(waiting.publishes, not unknown)

    def not_written(self, waiting: Waiting, failure: Failure) -> None:
        """Report the events of a chunk that the disk did not take.

        Args:
            waiting: Events of the chunk.
            failure: Failure for events that no lane has.
        """
        if waiting.dual_write is not None:
            self._dual_writes.not_written(waiting.dual_write, failure)
            return
        for publish in waiting.publishes:
            if publish.stage is not Stage.ENDED:
                publish.advance(Stage.ENDED)
        self._reports.failed(waiting.publishes, worse(waiting.failure, failure))

    def try_again(self, backlog: Backlog, dual_write: DualWrite) -> None:
        """Put a dual write that the disk did not take before the events that wait now."""
        for waiting in reversed(self._dual_writes.begin(backlog, filter(is_open, dual_write.open))):
            self._take(backlog, waiting, first=True)
