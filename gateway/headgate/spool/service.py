"""The running spool: its tasks, its start and end, its log lines and its figures."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from headgate.backends.base import Deliveries, Lanes
from headgate.backends.owned import OwnedTasks
from headgate.ingest.complete import Reports
from headgate.kafka.topics import KafkaTopics
from headgate.metrics.health import Dependency
from headgate.metrics.meter import Meter
from headgate.model.text import counted
from headgate.model.topics import TopicState
from headgate.spool.backlog import Backlogs
from headgate.spool.database import JournalDamagedError, JournalError
from headgate.spool.disk import Disk, SpoolOptions
from headgate.spool.draining import Allowance, Draining, DrainSpans, Writing
from headgate.spool.spool import Spool
from headgate.tracing.spans import LaterSpans

log = logging.getLogger("headgate.spool")

_TICK_S: Final = 0.05
_OPEN_AGAIN_S: Final = 2.0
_TELL_S: Final = 10.0
_REMEMBER_S: Final = 1.0
_END_S: Final = 3.0
_NAMED: Final = 5  # topics in one line


class SpoolService:
    """A spool's service: the spool, its disk, and the lanes behind it.

    Args:
        options: Options of the spool.
        backlogs: Backlogs of all lanes.
        topics: Topics of the clusters.
        after_s: See `Spool`.
        clock_ms: Wall clock, in milliseconds since 1970.
        meter: Metrics of spooled events.
        reports: Receiver of results.
        open_lanes: Makes the lanes, which report to the listener that it gets.
        spans: Spans if requests are traced.
    """

    def __init__(
        self,
        options: SpoolOptions,
        backlogs: Backlogs,
        topics: KafkaTopics,
        after_s: Callable[[str], float | None],
        clock_ms: Callable[[], int],
        meter: Meter,
        reports: Reports,
        open_lanes: Callable[[Deliveries], Lanes],
        spans: LaterSpans | None = None,
    ) -> None:
        self._spans = None if spans is None else DrainSpans(spans)
        self._topics = topics
        self._after_s = after_s
        self._clock_ms = clock_ms
        self._meter = meter
        self._tasks = OwnedTasks()
        self.backlogs = backlogs
        self._disk = Disk(options, clock_ms)
        self._allowance = Allowance(options.drain_events_per_s, time.monotonic)
        news = asyncio.Event()

        def open_behind(spool: Spool) -> Lanes:
            topics.on_change(spool.topic_changed)  # before the lanes, which end with a topic
            return open_lanes(spool)

        self.spool = Spool(
            backlogs,
            self._disk,
            reports,
            after_s,
            time.monotonic,
            news.set,
            topics.get,
            open_behind,
        )
        self._writing = Writing(self.spool, self._disk, clock_ms, self._allowance.came, news, meter)
        self.is_open = False
        self._open_at = self._told_at = 0.0
        self._was_empty = True
        self._shrinks = False
        self._remember_at = 0.0
        self._remembered: list[TopicState] = []

    async def start(self, healthy: Callable[[str], bool]) -> None:
        """Open the journal before the first event comes, and start the tasks.

        Topics without a reading yet have their last stored states. If the journal cannot be opened,
        the gateway starts all the same, and the service tries again.

        Args:
            healthy: Returns whether a cluster takes records.
        """
        await self._open()
        draining = Draining(
            self.backlogs,
            self._disk,
            self._writing,
            self.spool.lanes,
            self._topics,
            healthy,
            self._topics.is_fresh,
            self._allowance,
            time.monotonic,
            self._meter,
            self._spans,
        )
        self._tasks.keep(self._writing.run, "spool: writing")
        self._tasks.keep(draining.run, "spool: draining")
        self._tasks.keep(self._look, "spool: what waits for too long")

    async def close(self) -> None:
        """Write the waiting events and close the journal. Close the lanes before."""
        await self._tasks.end(_END_S)
        if self.is_open:
            self.spool.shut()
            await self._writing.write()
        await self._disk.close()

    def dependency(self) -> Dependency:
        """Return the health of the spool, with a description."""
        trouble = self._disk.why_not()
        if trouble is not None:
            return Dependency("spool", False, False, trouble)
        events, _, oldest_s = self.totals()
        detail = (
            f"{counted(events, 'event')}, the oldest {oldest_s:.0f} s old" if events else "empty"
        )
        if self._disk.kept:
            detail += f"; a damaged file is kept in {', '.join(self._disk.kept[:_NAMED])}"
        return Dependency("spool", True, False, detail + self._unknown())

    def totals(self) -> tuple[int, int, float]:
        """Return events, bytes, and the age of the oldest event in seconds (0 without events)."""
        rows = self.by_topic().values()
        oldest_s = max((age_s for _, _, age_s in rows), default=0.0)
        return sum(events for events, _, _ in rows), sum(size for _, size, _ in rows), oldest_s

    def by_topic(self) -> dict[str, tuple[int, int, float]]:
        """Return the totals of each topic with spooled events."""
        now_ms, by_topic = self._clock_ms(), dict[str, tuple[int, int, float]]()
        for backlog in sorted(self.backlogs, key=lambda backlog: backlog.topic):
            if backlog.events:
                events, size, oldest_s = by_topic.get(backlog.topic, (0, 0, 0.0))
                age_s = (now_ms - backlog.oldest_ms) / 1000  # the clock may have been set back
                totals = (events + backlog.events, size + backlog.bytes, max(oldest_s, age_s))
                by_topic[backlog.topic] = totals
        return by_topic

    async def _open(self) -> None:
        self._open_at = time.monotonic() + _OPEN_AGAIN_S
        try:
            lanes = await self._disk.open()
        except JournalError as error:
            if self._disk.trouble != str(error):
                # Another process may be about to end; any other error needs a person.
                level = logging.WARNING if self._disk.is_in_use else logging.CRITICAL
                log.log(level, "spool: the disk file cannot be opened: %s", error)
            self._disk.trouble = str(error)
            return
        self.is_open = True
        if lanes:
            self._was_empty = False
            if not self._disk.is_checked:
                self._tasks.spawn(self._disk.check(), "spool: checking the whole file")
        salvaged = self._disk.salvaged
        for topic, lost in () if salvaged is None else salvaged.aside:
            self._meter.set_aside(topic, lost)
        self.backlogs.restore(lanes)  # before any await: new events must go behind
        try:
            self._topics.recall(await self._disk.topics())
        except JournalError as error:
            log.warning("spool: the list of its topics cannot be read: %s", error)
        try:
            self._meter.found_aside(await self._disk.aside())
        except JournalError as error:
            log.warning("spool: events that were set aside cannot be counted: %s", error)
        events = sum(lane.events for lane in lanes)
        if events:
            log.info("spool: publishing %s of an earlier run", counted(events, "event"))

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            if not self.is_open:
                if time.monotonic() >= self._open_at:
                    await self._open()
                continue
            self.spool.sweep()
            await self._remember()
            ages_ms = (backlog.oldest_ms for backlog in self.backlogs if backlog.events)
            self._disk.oldest_ms = min(ages_ms, default=0)
            await self._disk.probe()
            await self._tell()

    async def _remember(self) -> None:
        """Store the states of topics that spool, for a start while Kafka is away."""
        now_s = time.monotonic()
        if now_s < self._remember_at:
            return
        self._remember_at = now_s + _REMEMBER_S
        states = [state for state in self._topics.states() if self._after_s(state.name) is not None]
        if states and states != self._remembered:
            try:
                await self._disk.remember(states)
            except JournalError as error:
                log.warning("spool: the list of its topics cannot be written: %s", error)
            else:
                self._remembered = states

    def _unknown(self) -> str:
        """Name the topics with spooled events that Kafka does not know."""
        names = [topic for topic in self.backlogs.topics if self._topics.get(topic) is None]
        return f"; Kafka does not know {', '.join(sorted(names)[:_NAMED])}" if names else ""

    async def _is_empty(self) -> bool:
        """Return whether the backlogs stay empty during a check that the disk has no chunk.

        Chunks without a backlog count as damage.
        """
        try:
            chunks = await self._disk.count()
        except JournalError as error:
            log.warning("spool: chunks cannot be counted: %s", error)
            self._disk.note_lasting(error)
            return True
        if self.backlogs.topics:  # events came meanwhile
            return False
        if chunks:
            text = f"{counted(chunks, 'chunk')} on disk belong to no partition that is known"
            self._disk.note_lasting(JournalDamagedError(text))
        return True

    async def _tell(self) -> None:
        """Log the state of the spool at intervals, and shrink the file once it is empty."""
        is_empty, now_s = not self.backlogs.topics, time.monotonic()
        if is_empty and not self._was_empty:
            is_empty = await self._is_empty()
            if is_empty and self._disk.lasting is None:
                log.info("spool: empty again, all spooled events were published")
                self._shrinks = True
        elif not is_empty and (self._was_empty or now_s - self._told_at >= _TELL_S):
            events, size, oldest_s = self.totals()
            if not events and not self._unknown():
                return  # the first events are on their way to the disk
            log.warning(
                "spool: %s (%d bytes) waiting for Kafka, the oldest for %.0f s%s",
                counted(events, "event"),
                size,
                oldest_s,
                self._unknown(),
            )
            self._told_at = now_s
        elif is_empty and self._shrinks:  # in steps: events may have to go to disk
            self._shrinks = await self._disk.shrink()
        self._was_empty = is_empty
