"""One session of an assignment: from InitProducerId to the first thing that is not known.

The rules are those of docs/design/coalescing-protocol.md, with their numbers. Any error ends the
session: its owner drops the producer and begins another one (rules 3, 9, 10).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headgate.coalescer.base import (
    AssignmentHost,
    CoalescingRules,
    Decisions,
    Emission,
    HeldPartition,
    LogError,
    Read,
    WindowDecision,
    WindowVerdict,
)
from headgate.core.coalescing.coalesce import Windows
from headgate.core.coalescing.done_marks import DoneMarks, marks_of
from headgate.core.coalescing.held import DoneMark, Metadata
from headgate.core.coalescing.window import Window
from headgate.core.outcome import Name

_WAIT_MS = 1000  # the longest look for records: what stops or reloads must be noticed
_IDLE_MS = 500  # an offset alone is committed when nothing was read for so long
_MARKS_A_KEY = 10  # a mark is a key and a number, a held event some hundred bytes and its value
_BACK_MS = 1000  # what a clock may go back by, as when it is corrected
_REDIS_WAIT_MS = 1000  # until Redis is asked again where the topic does not publish without it


class PartitionSession:
    """See the module. A change of the topic's rules begins another session."""

    def __init__(
        self,
        partition: HeldPartition,
        decisions: Decisions,
        rules: CoalescingRules,
        around: AssignmentHost,
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
        """Coalesce until it is time to stop. Raises LogError."""
        self._latest_ms = self._around.now_ms()
        windows = await self._begin()
        while not self._around.is_stopping():
            await self._read(windows)
            if windows.needs_marks:
                windows = await self._begin_with_marks(windows.target)
                continue
            self._around.show(windows.figures)
            rules = self._rules
            now_ms = self._now_ms()
            await self._around.turn()
            closed = windows.take_due(now_ms, rules.max_records, rules.max_bytes)
            if closed and not await self._emit(windows, closed):
                await self._around.pause(_REDIS_WAIT_MS)

    async def _begin(self) -> Windows:
        """Rule 2: before InitProducerId neither offset nor end is worth anything."""
        await self._log.fence()
        committed = await self._log.committed()
        metadata = Metadata.read(committed.metadata)
        # Another version's, which may say that something is unreserved.
        is_unknown = metadata is None and committed.metadata != ""
        offset = committed.offset
        # Once a session (rule 14). What this session commits and marks are offsets of the H
        # that it began with; under the id of an H that was recreated meanwhile the next session
        # would trust them, and skip as many events of the new one.
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
        """More is held than fits: what was read is dropped, and H read twice from where the group
        is. First only for the done marks: who knows all of them may emit before the end is read
        (the note on rule 4), and so hold no more than the bounds allow.
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
        if self._has_to_tell(windows):
            wait_ms = min(wait_ms, _IDLE_MS)
        if windows.must_close:
            return
        read = await self._poll(wait_ms)
        await self._around.turn()
        windows.read(read.records, read.position, self._now_ms())
        if not read.records and not windows.is_catching_up and self._has_to_tell(windows):
            await self._commit(windows.low_water(), Unsettled(self._decisions, ()))

    def _now_ms(self) -> int:
        """Raises LogError where the clock went back: what is open would stay so for as long. In the
        next session it opens anew, by the clock as it is now."""
        now_ms = self._around.now_ms()
        if now_ms < self._latest_ms - _BACK_MS:
            back_s = (self._latest_ms - now_ms) / 1000
            raise LogError("clock_went_back", f"the clock went back by {back_s:.0f} s", True)
        self._latest_ms = max(self._latest_ms, now_ms)
        return now_ms

    async def _poll(self, wait_ms: int) -> Read:
        """What lies in H, but for marks of an H that is no more."""
        await self._around.turn()  # what is buffered already is given without any wait
        records, position = await self._log.read(wait_ms)
        mine = [
            record
            for record in records
            if type(record) is not DoneMark or record.topic_id == self._topic_id
        ]
        return Read(mine, position)

    def _has_to_tell(self, windows: Windows) -> bool:
        """Rule 7: nothing is open and the group's offset lies behind; or the flag can go."""
        behind = windows.is_empty and windows.position > self._committed
        return behind or (self._is_flagged and not self._has_unreserved())

    def _has_unreserved(self) -> bool:
        return self._decisions.has_unreserved(self._around.route())

    async def _emit(self, windows: Windows, closed: Sequence[Window]) -> bool:
        """Rule 5: RESERVE all, append, offset, EndTxn, SETTLE; one transaction at a time.

        False: nothing could be decided, for Redis is away and the topic waits for it.
        """
        route = self._around.route()
        decided = await self._decisions.reserve(route, closed)
        pairs = list(zip(closed, decided, strict=True))
        waiting = [window for window, one in pairs if one.verdict is WindowVerdict.WAIT]
        if waiting:
            windows.put_back(waiting, self._around.now_ms() + _REDIS_WAIT_MS)
        publish = [pair for pair in pairs if pair[1].verdict is WindowVerdict.PUBLISH]
        unchanged = [window for window, one in pairs if one.verdict is WindowVerdict.UNCHANGED]
        if not publish and not unchanged:
            return False
        low_water = windows.low_water()
        settlements = Unsettled(self._decisions, publish)
        try:
            await self._write(settlements, low_water)
            await self._commit(low_water, settlements)
        finally:
            settlements.settle()
        self._around.ended(Name.PUBLISHED, [window for window, _ in publish])
        self._around.ended(Name.UNCHANGED, unchanged)
        return True

    async def _write(self, settlements: "Unsettled", low_water: int) -> None:
        emitted = settlements.windows
        if not emitted:
            return
        await self._around.turn()
        emissions = [_emission(window, one) for window, one in settlements.publish]
        with settlements.refusable():
            settlements.offsets = await self._log.append(emissions, self._marks(emitted, low_water))

    def _marks(self, emitted: Sequence[Window], low_water: int) -> Sequence[DoneMark]:
        return marks_of(emitted, low_water, self._topic_id)

    async def _commit(self, offset: int, settlements: "Unsettled") -> None:
        has_unreserved = self._has_unreserved()
        metadata = Metadata(self._topic_id, has_unreserved).text()
        with settlements.refusable():
            await self._log.send_offset(offset, metadata)
        await self._log.end_transaction()  # rule 9: an error here, and its end is not known
        settlements.is_committed = True
        self._committed, self._is_flagged = offset, has_unreserved


class Unsettled:
    """The publishes of a transaction until Redis is told what became of them, once (rule 8)."""

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
        """Around a step before EndTxn: if Kafka refuses it, no record can be in the topic."""
        try:
            yield
        except LogError as error:
            self._is_refused = error.is_refusal
            raise

    def settle(self) -> None:
        """An end that is not known, or an offset that Kafka did not give: no SETTLE."""
        for (_, decided), offset in zip(self.publish, self.offsets, strict=True):
            if self.is_committed and offset >= 0:
                self._decisions.settle(decided, offset)
            else:
                self._decisions.give_up(decided, certain=self._is_refused)


def _emission(window: Window, decided: WindowDecision) -> Emission:
    held = window.last
    return Emission(decided.partition, held.key, held.value, held.headers, held.timestamp_ms)
