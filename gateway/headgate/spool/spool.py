"""In front of the lanes: which events go to them, and which to disk.

An event of a topic with `spool = true` goes to disk instead of its lane
- if events of its lane lie there already, for it must not overtake them;
- if the lane takes nothing now.
It goes there from its lane
- once it has been there for `spool_after_ms`: what was not handed over is taken out of the lane,
  what was (a `Seam`) is written down as well, in case it ends without acknowledgement;
- if it ends there without acknowledgement, for a reason that passes.

Nothing here awaits. `writing` brings to disk what waits in the backlogs, `draining` back.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from headgate.backends.base import Deliveries, Lanes
from headgate.core.outcome import Failure, Reason
from headgate.core.oversize.limits import BEHIND
from headgate.core.placing import count_of, place_again
from headgate.core.publish import Publish, Stage
from headgate.core.topics.topic import TopicState
from headgate.spool.backlog import Backlog, Backlogs, Seam, Unit, Waiting, since
from headgate.spool.disk import Disk

# By which partition count events were placed: a topic may have grown since.


def by_count(publishes: Iterable[Publish]) -> list[list[Publish]]:
    """Parts of it, in order, each placed by one count."""
    parts = list[list[Publish]]()
    for publish in publishes:
        if not parts or count_of(parts[-1][0]) != count_of(publish):
            parts.append([])
        parts[-1].append(publish)
    return parts


# Who hears how spooled events end.


class SpoolReports(Deliveries, Protocol):
    """Who hears of ends (`pipeline.reports`)."""

    def spooled(self, batch: Sequence[Publish], certain: bool) -> None:
        """They are on disk, and that is their end. certain: no record of them can be in the log."""
        ...

    def spooled_in_flight(self, batch: Sequence[Publish]) -> None:
        """They are on disk, so they are answered; their end in the lane is reported later."""
        ...

    def withdrawn(self, batch: Sequence[Publish]) -> None:
        """These are no request's, and were taken out of their lane before they were handed over."""
        ...


# Events that are with the producer and on disk at once: each ends once for its client.
#
# Whichever comes first, the acknowledgement or the disk, answers the request. If Kafka
# acknowledges, the chunk is forgotten; if the events end otherwise there, what is on disk is
# published later.


def is_open(publish: Publish) -> bool:
    """Whether a request waits for it that has no answer to it yet."""
    ticket = publish.ticket
    return ticket is not None and ticket.outcomes[publish.index] is None


def worse(failure: Failure | None, of_disk: Failure) -> Failure:
    """How it ends that ended in its lane, if it did, and of which the disk did not take all."""
    return of_disk if failure is None or of_disk.reason is Reason.UNKNOWN else failure


class Seams:
    """Those whose end is not known."""

    def __init__(self, reports: SpoolReports) -> None:
        self._reports = reports
        self._of: dict[Publish, Seam] = {}

    def __contains__(self, publish: Publish) -> bool:
        return publish in self._of

    def begin(self, backlog: Backlog, publishes: Iterable[Publish]) -> list[Waiting]:
        """The producer has these, and they are to go to disk now."""
        waiting = list[Waiting]()
        for some in by_count(publishes):
            seam = Seam(some)
            backlog.seams.append(seam)
            for publish in some:
                self._of[publish] = seam
                publish.spooled = True
            waiting.append(Waiting(some, count_of(some[0]), seam))
        return waiting

    def acknowledged(self, batch: Sequence[Publish]) -> None:
        """Kafka has these, and those who wait for them have heard."""
        if self._of:
            for publish in batch:
                seam = self._of.pop(publish, None)
                if seam is not None:
                    seam.landed.add(seam.open.pop(publish))

    def failed(self, publish: Publish, failure: Failure) -> bool:
        """It ended in its lane without acknowledgement; False if it is none of these."""
        seam = self._of.pop(publish, None)
        if seam is None:
            return False
        del seam.open[publish]
        seam.again = True
        if seam.number is None:
            seam.failed[publish] = failure
        else:
            self._reports.spooled((publish,), failure.reason is not Reason.UNKNOWN)
        return True

    def written(self, seam: Seam, publishes: Sequence[Publish], number: int) -> None:
        """Their chunk is on disk."""
        seam.number = number
        if seam.open:
            self._reports.spooled_in_flight([one for one in publishes if one in seam.open])
        for publish, failure in seam.failed.items():
            self._reports.spooled((publish,), failure.reason is not Reason.UNKNOWN)
        seam.failed.clear()

    def not_written(self, seam: Seam, of_disk: Failure) -> None:
        """The disk did not take them: they end as they do in the lane."""
        for publish in seam.open:
            del self._of[publish]
            publish.spooled = of_disk.reason is Reason.UNKNOWN
        for publish, failure in seam.failed.items():
            self._reports.failed((publish,), worse(failure, of_disk))


_PASSES: Final = frozenset((Reason.UNKNOWN, Reason.KAFKA_UNAVAILABLE))
_ENDING_S: Final = 2.0  # `spool_after_ms` of a topic that does not spool any more
_TAKEN_OUT: Final = Failure(
    Reason.KAFKA_UNAVAILABLE, "its lane takes nothing now; nothing was written", retry_after_s=1
)


class Spool:
    """Implements `base.Lanes` towards those who produce and `base.Deliveries` towards the lanes.

    after_s: how long (seconds) Kafka may take for events of a topic, by name; None where they are
    not spooled.  clock: seconds, as `Ticket.arrived`.  wake: called where there is work for it.
    state_of: a topic as its cluster last described it.
    """

    def __init__(
        self,
        backlogs: Backlogs,
        disk: Disk,
        reports: SpoolReports,
        after_s: Callable[[str], float | None],
        clock: Callable[[], float],
        wake: Callable[[], None],
        state_of: Callable[[str], TopicState | None],
    ) -> None:
        self._state_of = state_of
        self.backlogs = backlogs
        self._disk = disk
        self._reports = reports
        self._after_s = after_s
        self._clock = clock
        self._wake = wake
        self._seams = Seams(reports)
        self._watched: list[Backlog] = []

    def over(self, lanes: Lanes) -> "Spool":
        """The lanes that it is in front of; they were built with it as their listener."""
        self.lanes = lanes
        return self

    # ---- base.Lanes

    def refusal(self, state: TopicState, partition: int) -> Failure | None:
        """Why an event can go neither to its lane nor to disk."""
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
                backlog, count = self.backlogs.behind(backlog, record.key, count)
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
        """Events of it are in the lane: `sweep` takes them out if that is slow."""
        if not backlog.is_watched:
            backlog.is_watched = True
            self._watched.append(backlog)

    def withdraw(self, topic: str, partition: int) -> tuple[list[Publish], list[Publish]]:
        """See `base.Lanes`."""
        return self.lanes.withdraw(topic, partition)

    def head(self, topic: str, partition: int) -> Publish | None:
        """See `base.Lanes`."""
        return self.lanes.head(topic, partition)

    # ---- base.Deliveries

    def handed_over(self, batch: Sequence[Publish]) -> None:
        """See `base.Deliveries`."""
        self._reports.handed_over(batch)

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """See `base.Deliveries`."""
        self._reports.acknowledged(batch, base_offset)
        if self.backlogs.topics:
            self._seams.acknowledged(batch)
            self._wake()

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        """See `base.Deliveries`."""
        topic, partition = batch[0].record.topic, batch[0].record.partition
        if not self._spools(topic) or failure.reason not in _PASSES:
            self._end(batch, failure)
            return
        reported, stored = list[Publish](), list[Publish]()
        state = self._state_of(topic)
        for publish in batch:
            if self._seams.failed(publish, failure):
                continue
            # Placed by another count, later events of its key may have gone before: its client has
            # to send it again.
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
            reported = [one for one in batch if one in {*reported, *stored}]
        # What comes behind them must not be handed over before. In a topic that has grown, a lane
        # has spooled events of other lanes' backlogs.
        is_drained = any(isinstance(one.owner, Unit) for one in batch)
        if stored or is_drained:
            self._withdraw(backlog, in_any_case=is_drained)
        if reported:
            self._reports.failed(reported, failure)
        self._wake()

    # ---- what has been waited for too long

    def sweep(self) -> None:
        """Take out of the lanes what has been there for too long. Call it often."""
        now_s, watched = self._clock(), self._watched
        self._watched = []
        for backlog in watched:
            head = self.lanes.head(backlog.topic, backlog.partition)
            if head is None:
                backlog.is_watched = False
                continue
            self._watched.append(backlog)
            if (
                now_s - since(head, now_s) >= self._time_of(backlog.topic)
                and self._disk.refusal() is None
            ):
                self._withdraw(backlog)
        for backlog in self.backlogs:
            if backlog.gate:
                self._look_at_gate(backlog, now_s)
        self.backlogs.tidy()

    def emptied(self, backlog: Backlog) -> None:
        """The journal has forgotten something of it: open the gate if that was all."""
        if backlog.is_behind:
            return
        gate, backlog.gate = backlog.gate, deque()
        for publish in gate:
            if publish.dropped:
                continue
            state = self._state_of(backlog.topic)
            if state is not None and place_again(publish, state):
                self.put(publish)  # its topic changed while it waited
            elif backlog.is_behind:  # its lane takes nothing any more
                self._store_behind(backlog, publish, count_of(publish))
            else:
                assert publish.common is not None  # it came with a request
                self._put(backlog, publish, publish.common.route.lane)

    def topic_changed(self, before: TopicState | None, after: TopicState | None) -> None:
        """A topic was deleted and created again: take its events out of their lanes, which end.

        They are placed again when they are drained. Events that are with the producer still end
        there, but nothing of their keys goes before them.
        """
        if before is None or after is None or after.topic_id == before.topic_id:
            return
        if not self._spools(before.name):
            return
        for partition in range(before.partitions):
            if self.lanes.head(before.name, partition) is not None:
                self._withdraw(self.backlogs.of(before.name, partition))

    def shut(self) -> None:
        """The lanes are closed: what waits for its turn goes to disk."""
        for backlog in self.backlogs:
            self._end_gate(backlog)

    def _look_at_gate(self, backlog: Backlog, now_s: float) -> None:
        if not backlog.is_behind:
            self.emptied(backlog)
            return
        waited_s = now_s - since(backlog.gate[0], now_s)
        if not backlog.is_closing or waited_s >= self._time_of(backlog.topic):
            self._end_gate(backlog)

    def _end_gate(self, backlog: Backlog) -> None:
        gate, backlog.gate = backlog.gate, deque()
        for publish in gate:
            if not publish.dropped:
                self._store(backlog, publish, count_of(publish))

    def _spools(self, topic: str) -> bool:
        """Also if it did until a reload, and something of it still lies on disk."""
        return self._after_s(topic) is not None or self.backlogs.is_behind(topic)

    def _time_of(self, topic: str) -> float:
        after_s = self._after_s(topic)
        return _ENDING_S if after_s is None else after_s

    def _withdraw(self, backlog: Backlog, *, in_any_case: bool = False) -> None:
        backlog.flows = False
        takes = self._disk.refusal() is None
        if not takes and not in_any_case:
            return  # they are as well off in the lane
        handed, queued = self.lanes.withdraw(backlog.topic, backlog.partition)
        crossing = [one for one in handed if is_open(one) and one not in self._seams]
        if crossing and takes:
            self.backlogs.begin(backlog.topic)
            for waiting in self._seams.begin(backlog, crossing):
                self._take(backlog, waiting)
        drained, foreign = list[Publish](), list[Publish]()
        for publish in queued:
            if isinstance(publish.owner, Unit):
                publish.owner.withdrawn(publish)
                drained.append(publish)
            elif self._seams.failed(publish, _TAKEN_OUT):
                continue  # the producer gave it back: it is published from disk
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
        """It goes to disk, behind all that its lane, its backlog and the gate have."""
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
        """They failed for good; those that were answered meanwhile are tried once more, from disk,
        and then set aside."""
        reported = [one for one in batch if not self._seams.failed(one, failure)]
        if reported:
            self._reports.failed(reported, failure)
        self._wake()

    def written(self, waiting: Waiting, number: int) -> None:
        """Says `writing`: a chunk is on disk."""
        if waiting.seam is not None:
            self._seams.written(waiting.seam, waiting.publishes, number)
            return
        unknown = waiting.failure is not None and waiting.failure.reason is Reason.UNKNOWN
        self._reports.spooled(waiting.publishes, not unknown)

    def not_written(self, waiting: Waiting, failure: Failure) -> None:
        """The disk did not take it. failure: the answer to those that no lane has."""
        if waiting.seam is not None:
            self._seams.not_written(waiting.seam, failure)
            return
        for publish in waiting.publishes:
            if publish.stage is not Stage.ENDED:
                publish.advance(Stage.ENDED)
        self._reports.failed(waiting.publishes, worse(waiting.failure, failure))

    def try_again(self, backlog: Backlog, seam: Seam) -> None:
        """Says `writing`: the disk did not take it. It must not come behind what waits now."""
        for waiting in reversed(self._seams.begin(backlog, filter(is_open, seam.open))):
            self._take(backlog, waiting, first=True)
