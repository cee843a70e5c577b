"""The journal on a thread of its own, and its current state."""

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from headgate.model.outcome import Failure, Reason
from headgate.model.topics import TopicState
from headgate.spool.database import (
    FILE,
    Append,
    JournalDamagedError,
    JournalError,
    JournalGoneError,
    JournalInUseError,
    Stored,
    connect,
)
from headgate.spool.folders import kept_in, move
from headgate.spool.journal import Journal, Salvage, salvage
from headgate.spool.reading import CHECK_S, Contents, LaneFigures

log = logging.getLogger("headgate.spool")

# ---- options and metrics of a spool


@dataclass(frozen=True, slots=True)
class SpoolOptions:
    """Options of a spool.

    Attributes:
        folder: Folder of the journal.
        max_bytes: Bytes on disk at which the spool takes no more events.
        max_age_ms: Age of the oldest event at which the spool takes no more events.
        drain_events_per_s: Rate back to Kafka, in addition to the rate of new events to disk.
    """

    folder: Path
    max_bytes: int
    max_age_ms: int
    drain_events_per_s: int


Result = TypeVar("Result")

_RETRY_S: Final = 1.0
_RETRY_AFTER_S: Final = 5
_UNREAD_S: Final = 10.0  # it takes nothing for so long after a failed read


class Disk:
    """A spool's journal on a thread of its own, and its state.

    Args:
        options: Options of the spool.
        clock_ms: Wall clock, in milliseconds since 1970.

    Attributes:
        trouble: Reason why the journal cannot be written, in words; None if it can.
        lasting: Reason and fix if only a restart helps: the file is damaged or gone. Readable
            events are still published.
        salvaged: Events taken over from a damaged file at the start, if there was one.
        kept: Folders with damaged files.
        is_checked: SQLite checked the whole file at the start, and found no damage.
        bytes: Bytes on disk.
        coming: Bytes of events on their way to disk.
        oldest_ms: Time of the oldest spooled event; 0 if there is none.
        is_in_use: Another process uses the folder, perhaps with events older than all new ones.
    """

    def __init__(self, options: SpoolOptions, clock_ms: Callable[[], int]) -> None:
        self._options = options
        self._clock_ms = clock_ms
        self._thread = ThreadPoolExecutor(1, "spool")
        self._journal: Journal | None = None
        self._retry_at = 0.0
        self._known = 0  # newest chunk at the start, or that `commit` returned
        self._unread_until = 0.0
        self._unread = ""
        self._checking: Contents | None = None
        self.trouble: str | None = "not opened yet"
        self.lasting: str | None = None
        self.salvaged: Salvage | None = None
        self.kept: list[str] = []
        self.is_checked = True
        self.bytes = self.coming = 0
        self.oldest_ms = 0
        self.is_in_use = False

    async def open(self) -> list[LaneFigures]:
        """Open the journal, and set a damaged one aside as a file.

        Returns:
            The figures of the lanes in the journal.

        Raises:
            JournalError: The folder cannot be used, or another process uses it.
        """
        try:
            journal, lanes = await self._run(self._opened)
        except JournalError as error:
            self.is_in_use = isinstance(error, JournalInUseError)
            raise
        self._journal, self._known = journal, journal.newest
        self.is_in_use = False
        self.trouble = None
        self.bytes = sum(lane.bytes for lane in lanes)
        return lanes

    async def close(self) -> None:
        """Close the journal and unlock its folder."""
        journal, self._journal = self._journal, None
        self.trouble = "closed"
        if journal is not None:
            await self._run(journal.close)
        self._thread.shutdown(wait=False)

    def refusal(self) -> Failure | None:
        """Return the failure of an event that neither Kafka nor the spool takes now."""
        trouble = self.why_not()
        return None if trouble is None else _unavailable(f"and {trouble}")

    def why_not(self) -> str | None:
        """Return why the spool takes no events now, in words; None if it takes them."""
        options = self._options
        if self.lasting is not None:
            return f"the spool takes nothing any more: {self.lasting}"
        if self.trouble is not None:
            return f"the spool cannot be written: {self.trouble}"
        if self._unread and time.monotonic() < self._unread_until:
            return f"the spool cannot be read: {self._unread}"
        size = self.bytes + self.coming
        if size >= options.max_bytes:
            return f"the spool is full: {size} bytes (spool.max_bytes)"
        if self.oldest_ms and self._clock_ms() - self.oldest_ms > options.max_age_ms:
            return (
                f"the oldest event in the spool is older than {options.max_age_ms} ms "
                "(spool.max_age_ms)"
            )
        return None

    async def commit(
        self,
        appends: Sequence[Append],
        done: Sequence[int],
        aside: Sequence[tuple[Append, str]] = (),
    ) -> list[tuple[int, int]]:
        """Commit chunks (`Journal.commit`)."""
        if appends and self.lasting is not None:
            raise JournalError(self.lasting)
        try:
            written = await self._run(self._open_journal().commit, appends, done, aside)
        except JournalError as error:
            self._failed(error)
            raise
        self._note_index()
        self._known = max([self._known, *(number for number, _ in written)])
        if self.trouble is not None:
            log.info("spool: the disk is writable again")
            self.trouble = None
        return written

    async def read(
        self, topic: str, partition: int, after: int, before: int | None, limits: tuple[int, int]
    ) -> list[Stored]:
        """Read chunks that `commit` has returned (`Journal.read`).

        The caller does not know yet of chunks that are being written, nor whether they may be
        read.

        Args:
            topic: Topic of the lane.
            partition: Partition of the lane.
            after: Only chunks with a higher number.
            before: Only chunks with a lower number; None for no limit.
            limits: Most events, and most bytes.
        """
        before = self._known + 1 if before is None else min(before, self._known + 1)
        try:
            chunks = await self._run(
                self._open_journal().read, topic, partition, after, before, *limits
            )
        except JournalError as error:
            if self._unread != str(error):
                log.warning("spool: %s-%d cannot be read: %s", topic, partition, error)
            self._unread, self._unread_until = str(error), time.monotonic() + _UNREAD_S
            self.note_lasting(error)
            raise
        self._unread = ""
        self._note_index()
        return chunks

    async def set_aside(self, number: int, reason: str) -> None:
        """Set a chunk aside (`Journal.set_aside`)."""
        try:
            await self._run(self._open_journal().set_aside, number, reason)
        except JournalError as error:
            self.note_lasting(error)
            raise

    async def remember(self, topics: Sequence[TopicState]) -> None:
        """Store the states of topics (`Journal.remember`)."""
        await self._run(self._open_journal().remember, topics)

    async def topics(self) -> list[TopicState]:
        """Return the stored states of topics (`Contents.topics`)."""
        return await self._run(self._open_journal().contents.topics)

    async def aside(self) -> dict[str, int]:
        """Count the events that were set aside, by topic."""
        events: dict[str, int] = {}
        for row in await self._run(self._open_journal().contents.aside):
            events[row.topic] = events.get(row.topic, 0) + row.events
        return events

    async def shrink(self) -> bool:
        """Shrink the file by a step (`Journal.shrink`); return False if that fails."""
        try:
            return await self._run(self._open_journal().shrink)
        except JournalError as error:
            log.warning("spool: the file cannot be shrunk: %s", error)
            return False

    async def overlooked(self, topic: str, partition: int) -> list[Stored]:
        """Return the chunks that the index lacks (`Journal.overlooked`)."""
        chunks = await self._run(self._open_journal().overlooked, topic, partition)
        self._note_index()
        return chunks

    async def count(self) -> int:
        """Count the chunks in the table."""
        return await self._run(self._open_journal().count)

    async def check(self) -> None:
        """Check the whole file with SQLite on another thread. Damage lasts until a restart."""
        try:
            await asyncio.to_thread(self._check)
        except asyncio.CancelledError:
            if self._checking is not None:
                with contextlib.suppress(sqlite3.Error):  # the check has just ended
                    self._checking.interrupt()
            raise
        except JournalError as error:
            log.warning("spool: the file could not be checked completely: %s", error)
            self.note_lasting(error)

    def _check(self) -> None:
        database = connect(self._options.folder / FILE, is_reader=True)
        self._checking = Contents(database)
        try:
            self._checking.check()
        finally:
            self._checking.close()

    async def probe(self) -> None:
        """Try an empty commit at intervals while the journal cannot be written."""
        now_s = time.monotonic()
        if self._journal is None or self.trouble is None or now_s < self._retry_at:
            return
        self._retry_at = now_s + _RETRY_S
        try:
            await self.commit((), (0,))  # no chunk has this number
        except JournalError:
            return

    def _open_journal(self) -> Journal:
        if self._journal is None:
            raise JournalError("closed")
        return self._journal

    def _opened(self) -> tuple[Journal, list[LaneFigures]]:
        folder = self._options.folder
        try:
            journal, lanes, self.is_checked = _open(folder)
        except JournalDamagedError as error:
            (journal, lanes), self.is_checked = self._begin_again(folder, error), True
        if journal.is_missing:
            log.critical(
                "spool: %s is missing: its events are lost, and a new spool is created",
                folder / FILE,
            )
        self.kept = kept_in(folder)
        return journal, lanes

    def _begin_again(
        self, folder: Path, error: JournalDamagedError
    ) -> tuple[Journal, list[LaneFigures]]:
        kept = folder / f"damaged-{self._clock_ms()}"
        try:
            move(folder, kept)
        except OSError as refused:
            raise JournalError(f"the file is damaged and cannot be moved: {refused}") from error
        journal = Journal(folder)
        try:
            self.salvaged = saved = salvage(kept, journal)
            lanes = journal.contents.lanes()
        except BaseException:
            journal.close()
            raise
        log.critical(
            "spool: %s is damaged (%s) and kept as %s. %d of its events will be published, at "
            "least %d will not%s",
            folder / FILE,
            error,
            kept,
            saved.events,
            sum(events for _, events in saved.aside),
            "" if saved.is_complete else "; the number of lost events is unknown",
        )
        return journal, lanes

    def _failed(self, error: JournalError) -> None:
        was_writable, self.trouble = self.trouble is None, str(error)
        self._retry_at = time.monotonic() + _RETRY_S
        self.note_lasting(error)
        if was_writable and self.lasting is None:
            log.critical("spool: the disk cannot be written: %s", error)

    def _note_index(self) -> None:
        if self._journal is not None and self._journal.distrusts_index:
            self.note_lasting(JournalDamagedError("the index of its chunks is wrong"))

    def note_lasting(self, error: JournalError) -> None:
        """Take no more events until a restart if the file is damaged or gone."""
        if self.lasting is not None:
            return
        if isinstance(error, JournalDamagedError):
            self.lasting = (
                f"the file is damaged ({error}): restart the gateway, which sets the file aside"
            )
        elif isinstance(error, JournalGoneError):
            self.lasting = f"{error}: restart the gateway when the spool is empty"
        if self.lasting is not None:
            log.critical("spool: %s", self.lasting)

    async def _run(self, call: Callable[..., Result], *arguments: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)


def _open(folder: Path) -> tuple[Journal, list[LaneFigures], bool]:
    """Open a journal.

    Returns:
        The journal, the figures of its lanes, and whether SQLite has checked the whole file.
    """
    journal = Journal(folder)
    try:
        is_checked = journal.contents.check(CHECK_S)
        return journal, journal.contents.verified(), is_checked
    except BaseException:
        journal.close()
        raise


def _unavailable(detail: str) -> Failure:
    text = f"Kafka takes nothing in time, {detail}"
    return Failure(Reason.KAFKA_UNAVAILABLE, text, retry_after_s=_RETRY_AFTER_S)
