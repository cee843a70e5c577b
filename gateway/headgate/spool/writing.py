"""Group commit: all that waits goes to disk in one transaction, then the next."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Publish
from headgate.spool.backlog import Backlog, Seam, Unit, Waiting
from headgate.spool.backlogs import Backlogs
from headgate.spool.database import JournalError
from headgate.spool.disk import Disk
from headgate.spool.entries import Append
from headgate.spool.spool import Spool

log = logging.getLogger("headgate.spool")

_RETRY_AFTER_S: Final = 5
_RETRY_S: Final = 1.0
_MAX_CHUNKS: Final = 200  # of a commit: what comes meanwhile waits for it


class Done(NamedTuple):
    """A chunk of so many events that nobody needs any more."""

    number: int
    backlog: Backlog
    placed_by: int
    events: int


class Writing:
    """clock_ms: milliseconds since 1970.  came: told how many events came to disk.

    aside: events that Kafka refused for good, and why: written with the next commit, at the latest
    with the one that forgets them.
    """

    def __init__(
        self,
        backlogs: Backlogs,
        disk: Disk,
        clock_ms: Callable[[], int],
        came: Callable[[int], None],
    ) -> None:
        self._backlogs = backlogs
        self._disk = disk
        self._clock_ms = clock_ms
        self._came = came
        self._done: list[Done] = []
        self.aside: list[tuple[Append, str]] = []
        self._news = asyncio.Event()
        self.spool: Spool | None = None

    def wake(self) -> None:
        """There may be something to write."""
        self._news.set()

    def watch(self, publish: Publish) -> None:
        """A record goes back to a lane, which may be slow."""
        assert self.spool is not None
        record = publish.record
        self.spool.watch(self._backlogs.of(record.topic, record.partition))

    def finished(self, unit: Unit) -> None:
        """All of it is published."""
        backlog = unit.backlog
        backlog.unit, backlog.flows = None, True
        for number, count, size in unit.chunks:
            self._forget(backlog, number, count, size, unit.placed_by, unit.at_ms)
        self.wake()

    def gone(self, backlog: Backlog, chunk: tuple[int, int, int], placed_by: int) -> None:
        """A chunk that was not read was set aside."""
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
        """Write all that waits now; False where the disk does not take what is to be forgotten,
        which can wait."""
        while True:
            self._end_seams()
            waiting = self._take()
            done, self._done = self._done, []
            aside, self.aside = self.aside, []
            if not waiting and not done and not aside:
                return True
            if not await self._commit(waiting, done, aside) and not waiting:
                return False

    def _take(self) -> list[tuple[Backlog, Waiting]]:
        """What goes to disk next. Of a topic, what was placed by an earlier count comes before: so
        a start finds the order of the counts in the numbers."""
        taken = list[tuple[Backlog, Waiting]]()
        age, oldest = 0, 0
        while age <= oldest:
            for backlog in self._backlogs:
                while backlog.waiting and len(taken) < _MAX_CHUNKS:
                    if (later := backlog.age_of(backlog.waiting[0].partitions)) > age:
                        oldest = max(oldest, later)
                        break
                    one = backlog.waiting.popleft()
                    backlog.writing.append(one)
                    taken.append((backlog, one))
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
                one.partitions,
                at_ms,
                [publish.record for publish in one.publishes],
            )
            for backlog, one in waiting
        ]
        try:
            written = await self._disk.commit(appends, [one.number for one in done], aside)
        except JournalError as error:
            self._done += done
            self.aside += aside
            self._not_written(waiting, error)
            return False
        except BaseException as error:
            self._not_written(waiting, JournalError(repr(error), is_certain=False))
            raise
        for (backlog, one), (number, size) in zip(waiting, written, strict=True):
            self._written(backlog, one, number, size, at_ms)
        for each in done:
            each.backlog.forgetting -= 1
            each.backlog.ended.discard(each.number)
            each.backlog.count(each.placed_by, -each.events)
        assert self.spool is not None
        for backlog in dict.fromkeys(each.backlog for each in done):
            self.spool.emptied(backlog)
        return True

    def _written(self, backlog: Backlog, one: Waiting, number: int, size: int, at_ms: int) -> None:
        count = len(one.publishes)
        self._ended(backlog, one)
        backlog.stored(count, size, at_ms)
        self._disk.bytes += size
        if one.seam is None:
            backlog.left += count
            self._came(count)
        else:
            one.seam.size = size
            one.seam.placed_by = one.partitions
        assert self.spool is not None
        self.spool.written(one, number)

    def _not_written(self, waiting: list[tuple[Backlog, Waiting]], error: JournalError) -> None:
        assert self.spool is not None
        for backlog, one in waiting:
            self._ended(backlog, one)
            backlog.count(one.partitions, -len(one.publishes))
            if one.seam is not None:
                backlog.seams.remove(one.seam)
            self.spool.not_written(one, _failure(error))
        for backlog, one in reversed(waiting):
            if one.seam is not None and backlog.waiting:
                self.spool.try_again(backlog, one.seam)

    def _ended(self, backlog: Backlog, one: Waiting) -> None:
        backlog.writing.remove(one)
        self._disk.coming -= one.bytes

    def _end_seams(self) -> None:
        """Those whose events have all ended: to be published again, or forgotten."""
        for backlog in self._backlogs:
            for seam in [one for one in backlog.seams if one.number is not None and not one.open]:
                backlog.seams.remove(seam)
                self._end_seam(backlog, seam)

    def _end_seam(self, backlog: Backlog, seam: Seam) -> None:
        assert seam.number is not None
        if seam.again:
            backlog.left += seam.count
            if seam.landed:
                backlog.landed[seam.number] = seam.landed
        else:
            backlog.ended.add(seam.number)
            self._forget(backlog, seam.number, seam.count, seam.size, seam.placed_by, 0)

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
