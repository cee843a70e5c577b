"""A spool as it runs: its tasks, its start and its end, and what it tells people."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from headgate.backends.base import Lanes, Suppression, Topics
from headgate.backends.owned import OwnedTasks
from headgate.core.suppression import Scope
from headgate.core.terminal import counted
from headgate.core.topics.topic import TopicState
from headgate.metrics.health import Dependency
from headgate.spool.backlog import Backlogs
from headgate.spool.database import JournalDamagedError, JournalError
from headgate.spool.disk import Disk, SpoolMeter, SpoolOptions
from headgate.spool.draining import Allowance, Draining, DrainSpans, Writing
from headgate.spool.spool import Spool, SpoolReports
from headgate.tracing.spans import LaterSpans

log = logging.getLogger("headgate.spool")

_TICK_S: Final = 0.05
_OPEN_AGAIN_S: Final = 2.0
_TELL_S: Final = 10.0
_REMEMBER_S: Final = 1.0
_END_S: Final = 3.0
_NAMED: Final = 5  # topics in one line


class LaneSpool(NamedTuple):
    """What of one lane is spooled. oldest_s: seconds ago."""

    topic: str
    partition: int
    events: int
    bytes: int
    oldest_s: float


class KnownTopics(Topics, Protocol):
    """The topics that exist, and those that did when Kafka was last asked."""

    def states(self) -> list[TopicState]: ...

    def recall(self, states: Iterable[TopicState]) -> None: ...

    def on_change(
        self, listener: Callable[[TopicState | None, TopicState | None], None]
    ) -> None: ...

    def is_fresh(self, cluster: str, since_s: float) -> bool:
        """Whether the states are of a reading that began after this time (monotonic seconds). If
        not, the cluster is read again soon."""
        ...


class SpoolService:
    """Built before the lanes, which report to `spool`.

    after_s: see `Spool`.  clock_ms: milliseconds since 1970.  spans: where requests are traced.
    """

    def __init__(
        self,
        options: SpoolOptions,
        topics: KnownTopics,
        after_s: Callable[[str], float | None],
        clock_ms: Callable[[], int],
        meter: SpoolMeter,
        spans: LaterSpans | None = None,
    ) -> None:
        self._spans = None if spans is None else DrainSpans(spans)
        self._topics = topics
        self._after_s = after_s
        self._clock_ms = clock_ms
        self._meter = meter
        self._tasks = OwnedTasks()
        self.backlogs = Backlogs()
        self._disk = Disk(options, clock_ms)
        self._allowance = Allowance(options.drain_events_per_s, time.monotonic)
        self._writing = Writing(self.backlogs, self._disk, clock_ms, self._allowance.came)
        self.is_open = False
        self._open_at = self._told_at = 0.0
        self._was_empty = True
        self._shrinks = False
        self._remember_at = 0.0
        self._remembered: list[TopicState] = []

    def between(self, reports: SpoolReports, lanes: Callable[[Spool], Lanes]) -> Spool:
        """The spool, in front of the lanes, which are built with it as their listener."""
        self.spool = Spool(
            self.backlogs,
            self._disk,
            reports,
            self._after_s,
            time.monotonic,
            self._writing.wake,
            self._topics.get,
        )
        self._writing.spool = self.spool
        self._topics.on_change(self.spool.topic_changed)  # before the lanes, which end with a topic
        self._lanes = lanes(self.spool)
        return self.spool.over(self._lanes)

    def announce_with(
        self, suppression: Suppression, scope_of: Callable[[str], Scope | None]
    ) -> None:
        """See `Backlogs`."""
        self.backlogs.announce_with(suppression, scope_of)
        self._suppression = suppression

    async def start(self, healthy: Callable[[str], bool]) -> None:
        """Open the journal, before the first event comes. healthy: whether a cluster takes records.

        Topics that Kafka has not told of yet are as it last told of them.

        A journal that cannot be opened is no reason not to start: it is tried again.
        """
        await self._open()
        draining = Draining(
            self.backlogs,
            self._disk,
            self._writing,
            self._lanes,
            self._topics,
            healthy,
            self._topics.is_fresh,
            self._allowance,
            time.monotonic,
            self._meter,
            self._suppression,
            self._spans,
        )
        self._tasks.keep(self._writing.run, "spool: writing")
        self._tasks.keep(draining.run, "spool: draining")
        self._tasks.keep(self._look, "spool: what waits for too long")

    async def close(self) -> None:
        """Write what waits, and give the folder back. The lanes are closed before."""
        await self._tasks.end(_END_S)
        if self.is_open:
            self.spool.shut()
            await self._writing.write()
        await self._disk.close()

    def dependency(self) -> Dependency:
        """Whether it takes events, and in words how it is."""
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
        """Events, bytes, and how many seconds ago the oldest was spooled (0: none is)."""
        rows = self.rows()
        oldest_s = max((one.oldest_s for one in rows), default=0.0)
        return sum(one.events for one in rows), sum(one.bytes for one in rows), oldest_s

    def by_topic(self) -> dict[str, tuple[int, int, float]]:
        """The same for each topic that has any."""
        found: dict[str, tuple[int, int, float]] = {}
        for one in self.rows():
            events, size, oldest_s = found.get(one.topic, (0, 0, 0.0))
            oldest_s = max(oldest_s, one.oldest_s)
            found[one.topic] = (events + one.events, size + one.bytes, oldest_s)
        return found

    def rows(self) -> list[LaneSpool]:
        """What is spooled, lane by lane."""
        now_ms = self._clock_ms()
        return [
            LaneSpool(
                one.topic,
                one.partition,
                one.events,
                one.bytes,
                max(0, now_ms - one.oldest_ms) / 1000,  # clocks may be set back
            )
            for one in sorted(self.backlogs, key=lambda one: (one.topic, one.partition))
            if one.events
        ]

    async def _open(self) -> None:
        self._open_at = time.monotonic() + _OPEN_AGAIN_S
        try:
            found = await self._disk.open()
        except JournalError as error:
            if self._disk.trouble != str(error):
                # Another process may be about to end; everything else needs a person.
                level = logging.WARNING if self._disk.is_in_use else logging.CRITICAL
                log.log(level, "spool: the disk file cannot be opened: %s", error)
            self._disk.trouble = str(error)
            return
        self.is_open = True
        if found:
            self._was_empty = False
            if not self._disk.is_checked:
                self._tasks.spawn(self._disk.check(), "spool: checking the whole file")
        salvaged = self._disk.salvaged
        for topic, lost in () if salvaged is None else salvaged.aside:
            self._meter.set_aside(topic, lost)
        self.backlogs.found(found)  # before anything is awaited: events come, and must go behind
        try:
            self._topics.recall(await self._disk.topics())
        except JournalError as error:
            log.warning("spool: the list of its topics cannot be read: %s", error)
        events = sum(one.events for one in found)
        if events:
            log.warning("spool: publishing %d events of an earlier run", events)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            if not self.is_open:
                if time.monotonic() >= self._open_at:
                    await self._open()
                continue
            self.spool.sweep()
            await self._remember()
            ages_ms = (one.oldest_ms for one in self.backlogs if one.events)
            self._disk.oldest_ms = min(ages_ms, default=0)
            await self._disk.probe()
            await self._tell()

    async def _remember(self) -> None:
        """What Kafka says of topics that spool, for a start while it is away."""
        now_s = time.monotonic()
        if now_s < self._remember_at:
            return
        self._remember_at = now_s + _REMEMBER_S
        states = [one for one in self._topics.states() if self._after_s(one.name) is not None]
        if states and states != self._remembered:
            try:
                await self._disk.remember(states)
            except JournalError as error:
                log.warning("spool: the list of its topics cannot be written: %s", error)
            else:
                self._remembered = states

    def _unknown(self) -> str:
        """Which topics' events go nowhere, in words."""
        names = [one for one in self.backlogs.topics if self._topics.get(one) is None]
        return f"; Kafka does not know {', '.join(sorted(names)[:_NAMED])}" if names else ""

    async def _is_empty(self) -> bool:
        """Whether the disk has no chunk, either."""
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
        """Say in the log how it goes, now and then."""
        is_empty, now_s = not self.backlogs.topics, time.monotonic()
        if is_empty and not self._was_empty:
            is_empty = await self._is_empty()
            if is_empty and self._disk.lasting is None:
                log.warning("spool: empty again, all spooled events were published")
                self._shrinks = True
        elif not is_empty and (self._was_empty or now_s - self._told_at >= _TELL_S):
            events, size, oldest_s = self.totals()
            log.warning(
                "spool: %d events (%d bytes) wait for Kafka, the oldest for %.0f s%s",
                events, size, oldest_s, self._unknown(),
            )  # fmt: skip
            self._told_at = now_s
        elif is_empty and self._shrinks:  # a step at a time: events may have to go to disk
            self._shrinks = await self._disk.shrink()
        self._was_empty = is_empty
