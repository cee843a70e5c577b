"""Polls of one cluster, and its commit stream if that can be read.

A poll reads the committed offsets first and the logs' ends after them, so no lag is below the true
one. When the commit stream has its start position, one more poll follows. The poll reports the
commits before that position, and the commit stream those after it, so no commit is lost between
them.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import aiohttp

from headgate.backends.owned import OwnedTasks
from headgate.errors_in_words import connection_error
from headgate.kafka.group_reader import TOPIC, CommitStream, GroupPoll, GroupReader
from headgate.kafka.groups import (
    ClassicGroup,
    CommitRecord,
    ConsumerMember,
    MemberAssignment,
    OffsetsRecord,
    Partition,
    before_and_after,
)
from headgate.kafka.options import ClusterOptions
from headgate.kafka.topics import READ_ERRORS, first_readable, kafka_in_words, record_at
from headgate.metrics.library_lines import ClusterOutage, in_cluster
from headgate.model.cache import BoundedCache
from headgate.model.record import size_of
from headgate.model.text import masked, without_secrets
from headgate.model.times import Outage
from headgate.monitor.cluster_watch import ClusterWatch, WatchOptions
from headgate.monitor.diagnosis import NextRecord, worst_partition
from headgate.monitor.group_watch import GroupReport, Regression
from headgate.monitor.rogue_readers import RogueReaders, Totals, read_totals
from headgate.monitor.rules import SEVERITY, LagState, Probation

log = logging.getLogger("headgate.monitor")


def take(watch: ClusterWatch, record: OffsetsRecord, now_ms: int) -> Regression | None:
    """Apply a record of the commit stream; return the regression, if it is one."""
    match record:
        case CommitRecord(group, partition, stored, at_ms):
            return watch.committed(group, partition, stored, at_ms, now_ms)
        case ClassicGroup(group, _, members) if group in watch.groups or members:
            watch.members_seen(group, members, now_ms)
        case ConsumerMember(group, member_id, client_id, host):
            previous = watch.member(group, member_id)
            fresh = previous._replace(client_id=client_id or "", host=host or "")
            watch.apply_member(group, fresh, now_ms, is_gone=client_id is None)
        case MemberAssignment(group, member_id, epoch, partitions):
            previous = watch.member(group, member_id)
            fresh = previous._replace(assigned=watch.partitions_of(partitions))
            watch.apply_member(group, fresh, now_ms, is_gone=epoch < 0)
    return None


_TIMEOUT = aiohttp.ClientTimeout(total=5)


class ScrapeError(Exception):
    """An exporter that does not answer or has no metrics of topics; the text names it."""


async def scrape(urls: Sequence[str]) -> dict[str, Totals]:
    """Read all exporters at once; return their totals by URL.

    Raises:
        ScrapeError: An exporter failed, so that the totals would be incomplete.
    """
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        answers = await asyncio.gather(*(_read(session, url) for url in urls))
    return dict(zip(urls, answers, strict=True))


async def _read(session: aiohttp.ClientSession, url: str) -> Totals:
    try:
        async with session.get(url) as answer:
            answer.raise_for_status()
            return read_totals(await answer.text())
    except (aiohttp.ClientError, OSError, ValueError) as error:
        why = without_secrets(str(error))
        raise ScrapeError(f"{masked(url)}: {type(error).__name__}: {why}") from error


_POLL_S = 60.0  # all groups of a large cluster take a few seconds
_BEGIN_S = 90.0  # a poll, and the commits made meanwhile
_STREAM_RETRY_S = 10.0
_END_S = 5.0
_MAX_LOGGED = 20  # regressions between two polls
_RECORD_S = 1.5  # a page waits for it
_RECORDS_KEPT = 256
_NO_EXPORTERS = "no broker's metrics are read (clusters.NAME.metrics_urls)"
_UNREADABLE = f"{TOPIC} is not there yet or may not be read: commits between polls are not seen"


class Status(NamedTuple):
    """The state of a cluster's monitor.

    Attributes:
        ok: Whether the last poll succeeded.
        detail: Reason of a failure.
        polled_ms: End of the last poll, in milliseconds since 1970; None before the first.
        poll_s: Duration of that poll, in seconds.
        commits: Reason why not every commit is seen; empty if every commit is.
    """

    ok: bool
    detail: str
    polled_ms: int | None
    poll_s: float
    commits: str


class Exporters(NamedTuple):
    """The exporters of the brokers' metrics. See `RogueReaders`."""

    urls: tuple[str, ...] = ()
    limit_per_s: float = 0.0
    is_mirrored: bool = False


NO_EXPORTERS = Exporters()


class ClusterMonitor:
    """The monitor of one cluster.

    Args:
        name: Name of the cluster.
        options: Its options.
        watch_options: Rules for its groups.
        interval_s: Time between two polls, in seconds.
        probations: Probation of groups before a restart.
        now_ms: Milliseconds since 1970.
        exporters: Exporters of the brokers' metrics.
    """

    def __init__(
        self,
        name: str,
        options: ClusterOptions,
        watch_options: WatchOptions,
        interval_s: float,
        probations: Mapping[str, Probation],
        now_ms: Callable[[], int],
        exporters: Exporters = NO_EXPORTERS,
    ) -> None:
        self.name = name
        self.exporters = exporters
        self.readers = RogueReaders(exporters.limit_per_s, is_mirrored=exporters.is_mirrored)
        self.rogue_detail = "" if exporters.urls else _NO_EXPORTERS
        self.watch = ClusterWatch(watch_options, probations)
        self.status = Status(False, "not polled yet", None, 0.0, "not begun yet")
        self.judged: dict[str, GroupReport] = {}
        self._options = options
        self._interval_s = interval_s
        self._now_ms = now_ms
        self.began_ms = now_ms()
        self._reader = GroupReader(options)
        self._logged = 0  # regressions since the last poll
        self._has_commit_stream = False
        self._sees_commits = False
        self._has_polled = asyncio.Event()
        self._first_poll = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._one_record = asyncio.Lock()
        self._records = BoundedCache[tuple[Partition, int], NextRecord](_RECORDS_KEPT)
        self._tasks = OwnedTasks()
        self._outage = ClusterOutage(name)
        self._scrape_outage = Outage(time.monotonic)
        self._stream_outage = Outage(time.monotonic)

    def start(self, *, follows: bool = True) -> None:
        """Begin to poll, and to follow every commit."""
        self._tasks.keep(self._poll_on, f"polling cluster {self.name}")
        if follows:
            self._tasks.keep(self._follow_on, f"following commits of cluster {self.name}")
        else:
            self._note_stream("a single poll does not follow commits: it shows none that went back")

    async def close(self) -> None:
        """Stop polling and following; bounded."""
        await self._tasks.end(_END_S)

    async def polled(self) -> None:
        """Wait for the first poll."""
        await self._first_poll.wait()

    async def next_record(self, report: GroupReport) -> NextRecord | None:
        """Return the record at the worst position of a group that has stopped, if it can be read.

        Reads one record at a time, only for a page that shows it, and remembers it.
        """
        worst = worst_partition(report)
        if worst is None or worst.committed is None or not worst.lag or worst.beyond_end:
            return None
        if SEVERITY[worst.pace] < SEVERITY[LagState.STALL]:
            return None
        place = worst.partition, max(worst.committed, worst.start)
        async with self._one_record:
            known = self._records.get(place)
            if known is not None:
                return known
            record = await record_at(self._options, *place, _RECORD_S)
        if record is None:
            return None
        size = size_of(record.key, record.value, record.headers)
        return self._records.put(place, NextRecord(record.offset, record.key, size))

    # ---- polls

    async def _poll_on(self) -> None:
        in_cluster(self.name)
        clock = asyncio.get_running_loop().time
        try:
            while True:
                began = clock()
                try:
                    async with self._one_at_a_time, asyncio.timeout(_POLL_S):
                        await self._poll()
                except READ_ERRORS as error:
                    level = logging.WARNING if self._outage.begins() else logging.DEBUG
                    why = connection_error(error)
                    log.log(level, "cluster %s cannot be polled: %s", self.name, why)
                    self.status = self.status._replace(
                        ok=False, detail=kafka_in_words(error, self.name)
                    )
                    await self._reader.close()
                else:
                    self._note_recovery(self._outage, "polled again")
                    commits = self.status.commits
                    self.status = Status(True, "", self._now_ms(), clock() - began, commits)
                    self._has_polled.set()
                    self._first_poll.set()
                await asyncio.sleep(max(0.0, self._interval_s - (clock() - began)))
        finally:
            await self._reader.close()

    async def _poll(self, commits: CommitStream | None = None) -> None:
        """Poll once.

        Args:
            commits: A commit stream that has just begun; its records so far are applied in order
                with the poll.
        """
        tells = (
            not self._has_commit_stream
        )  # read first: a stream that breaks meanwhile has reported newer commits
        poll = await self._reader.poll()
        so_far = () if commits is None else await commits.so_far()
        before, after = before_and_after(so_far, poll.stored)
        self._logged = 0
        new = poll.logs.keys() - self.watch.logs.keys()
        past = await self._past(poll, new) if new else ()
        spans = self.watch.next_doubtful(poll.stored, poll.logs)
        readable = await first_readable(self._options, spans)
        self._sees_commits = TOPIC in poll.topics
        now_ms = self._now_ms()
        self.watch.topics_seen(poll.topics, now_ms)
        for partition, at_ms, end in past:
            self.watch.seeded(partition, at_ms, end)
        self.watch.logs_seen(poll.logs, now_ms)
        self.watch.note_read(spans, readable)
        self.watch.groups_seen(poll.groups, now_ms, is_whole=poll.is_whole)
        for record in before:
            self._take(record)
        for fall in self.watch.sampled(poll.stored, now_ms, infer_commits=tells):
            self._report(fall)
        for record in after:
            self._take(record)
        self.judged = self.watch.judged(now_ms, has_commit_stream=self._has_commit_stream)
        if self.exporters.urls:
            await self._scrape(poll)

    async def _scrape(self, poll: GroupPoll) -> None:
        try:
            brokers = await scrape(self.exporters.urls)
        except ScrapeError as error:
            if self._scrape_outage.begins():
                log.warning("cluster %s: broker metrics cannot be read: %s", self.name, error)
            self.rogue_detail = "broker metrics cannot be read; see the log of the monitor"
            return
        self._note_recovery(self._scrape_outage, "broker metrics can be read again")
        self.rogue_detail = ""
        self.readers.polled(self._now_ms(), brokers, poll.stored, poll.groups)

    async def _past(
        self, poll: GroupPoll, new: Collection[Partition]
    ) -> list[tuple[Partition, int, int]]:
        """Return the ends of logs one page-cache horizon ago and half a horizon ago."""
        now_ms, horizon_ms = self._now_ms(), self.watch.options.horizon_ms
        past = []
        for at_ms in (now_ms - horizon_ms, now_ms - horizon_ms // 2):
            for partition, record in (await self._reader.offsets(new, at_ms)).items():
                if record.offset < 0:  # no record is younger
                    past.append((partition, at_ms, poll.logs[partition][1]))
                else:  # no record was written between that time and this record
                    past.append((partition, at_ms, record.offset))
                    past.append((partition, min(record.at_ms, now_ms), record.offset))
        return sorted(past)

    # ---- the commit stream

    async def _follow_on(self) -> None:
        in_cluster(self.name)
        while True:
            await self._has_polled.wait()
            if not self._sees_commits:
                self._note_stream(_UNREADABLE)
                self._has_polled.clear()
                continue
            commits = CommitStream(self._options)
            try:
                if await self._begin(commits):
                    await commits.follow(self._take)
            except READ_ERRORS as error:
                level = logging.WARNING if self._stream_outage.begins() else logging.DEBUG
                why = connection_error(error)
                log.log(level, "cluster %s: %s is not followed: %s", self.name, TOPIC, why)
                self._note_stream(f"{TOPIC} cannot be read: {kafka_in_words(error, self.name)}")
            else:
                self._note_stream(_UNREADABLE)
            finally:
                self._has_commit_stream = False
                await commits.close()
            self._has_polled.clear()  # the next poll reports the missed commits
            await asyncio.sleep(_STREAM_RETRY_S)

    async def _begin(self, commits: CommitStream) -> bool:
        """Begin the commit stream, without a poll of `_poll_on` at the same time.

        Such a poll would report the commits that the stream reports.
        """
        async with self._one_at_a_time, asyncio.timeout(_BEGIN_S):
            if not await commits.begin():
                return False
            await self._poll(commits)
            self._note_stream("")
            self._note_recovery(self._stream_outage, f"{TOPIC} is followed again")
            return True

    def _note_recovery(self, outage: Outage | ClusterOutage, what: str) -> None:
        if (away_s := outage.ends()) is not None:
            log.info("cluster %s: %s", self.name, what, extra={"away_s": away_s})

    def _note_stream(self, reason: str) -> None:
        self._has_commit_stream = not reason
        self.status = self.status._replace(commits=reason)

    def _take(self, record: OffsetsRecord) -> None:
        fall = take(self.watch, record, self._now_ms())
        if fall is not None:
            self._report(fall)

    def _report(self, fall: Regression) -> None:
        """Log a regression; a group that was reset, or flaps, must not fill the log."""
        self._logged += 1
        if self._logged > _MAX_LOGGED:
            if self._logged == _MAX_LOGGED + 1:
                log.warning("more commits went back; see /v1/groups", extra={"cluster": self.name})
            return
        who = "committer unknown" if fall.committer is None else f"by {fall.committer.client}"
        log.warning(
            "commit went back: group %s, %s-%d, from %d to %d, %s",
            fall.group,
            fall.topic,
            fall.partition,
            fall.from_offset,
            fall.to_offset,
            who,
            extra={"cluster": self.name, "owner": fall.owner, "owner_before": fall.owner_before},
        )
