"""The assignment of a group member: its work between one rebalance and the next.

It begins when the group assigns partitions, and ends when the group revokes them. At its end it
hands out nothing more, waits for events that are handed out (within a time limit), commits once
more, and only then releases the partitions. So no commit is in flight while the group rebalances:
aiokafka would send it with the new generation, and the broker would accept it
(docs/design/measured.md#late-commits-are-accepted).
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from headgate.backends.owned import OwnedTasks
from headgate.consumer.assembler import Assembler
from headgate.consumer.commits import Offsets, OffsetStore
from headgate.consumer.failures import Failures
from headgate.consumer.options import ConsumerOptions, Counts
from headgate.consumer.ownership import Owned, Ownership
from headgate.consumer.partition import OwnedPartition, Received
from headgate.kafka.aiokafka_internals import known_position
from headgate.redis.pauses import Pauses

log = logging.getLogger("headgate.consumer")

_POLL_MS, _BUSY_POLL_MS, _MAX_RECORDS = 500, 50, 500
_FINAL_COMMIT_S, _END_S = 5.0, 5.0


class Assignment:
    """One assignment of partitions. See the module.

    Args:
        consumer: The group's consumer.
        ownership: The member's terms of ownership.
        owned: The assigned partitions.
        options: The consumer's options.
        pauses: The group's pause intent.
        counts: Counters to increase.
        wake: Called when there may be events to hand out.
        give_up: Called with the error that ends the consumer.
        failures: Writes dead letters.
        offsets: The store of starting offsets; None: the group's commits.
    """

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        ownership: Ownership,
        owned: Iterable[Owned],
        options: ConsumerOptions,
        pauses: Pauses,
        counts: Counts,
        wake: Callable[[], None],
        give_up: Callable[[BaseException], None],
        failures: Failures,
        offsets: OffsetStore | None,
    ) -> None:
        self._consumer = consumer
        self._ownership = ownership
        self._options = options
        self._pauses = pauses
        self._counts = counts
        self._wake, self._give_up = wake, give_up
        self._failures = failures
        self._step = min(_MAX_RECORDS, (options.prefetch + 1) // 2)  # records of one read
        self._assembler = Assembler() if options.assemble else None
        self._tasks = OwnedTasks()
        self._timers: set[asyncio.TimerHandle] = set()
        self._turn: deque[OwnedPartition] = deque()
        self._outstanding = 0
        self._is_ending = False
        self._has_ended = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.partitions = {
            TopicPartition(each.topic, each.partition): OwnedPartition(each, self, self._assembler)
            for each in owned
        }
        self._offsets = Offsets(
            consumer, ownership, self.partitions, options, counts, offsets, give_up
        )
        self.commit = self._offsets.commit

    def begin(self) -> None:
        """Begin to read the partitions that intent allows. All of them are paused before."""
        self.apply_pauses()
        if self.partitions:
            self._offsets.begin()
            self._tasks.spawn(self._read(), "reading")
            self._tasks.keep(self._offsets.run, "committing")

    # ---- reading

    async def _read(self) -> None:
        try:
            await self._open_all()
            await self._read_on()
        except Exception as error:  # the outermost frame of this task: iterations raise it
            self._give_up(error)

    async def _read_on(self) -> None:
        while True:
            tps = self._readable_partitions()
            if not tps:
                await asyncio.sleep(_BUSY_POLL_MS / 1000)
                continue
            wait_ms = _POLL_MS if len(tps) == len(self.partitions) else _BUSY_POLL_MS
            batches = await self._consumer.getmany(*tps, timeout_ms=wait_ms, max_records=self._step)
            for tp, records in batches.items():
                partition = self.partitions.get(tp)
                if partition is not None and self._ownership.is_current(partition.owned):
                    self._counts.delivered += len(records)
                    partition.take(records)
            self._reached(tps)

    def _reached(self, tps: Iterable[TopicPartition]) -> None:
        """Note the positions of reading.

        They may be behind offsets without events, such as a transaction's marker, which aiokafka
        does not deliver.
        """
        for tp in tps:
            partition = self.partitions[tp]
            if self._ownership.is_current(partition.owned):
                position = known_position(self._consumer, tp)
                if position is not None:
                    partition.reached(position)

    async def _open_all(self) -> None:
        done_below = await self._offsets.go_to_starts()
        for tp, partition in self.partitions.items():
            partition.begin(done_below.get(tp, 0))
        self.apply_pauses()

    def _readable_partitions(self) -> list[TopicPartition]:
        limit = self._options.prefetch - self._step
        return [
            tp
            for tp, partition in self.partitions.items()
            if partition.may_be_read
            and not partition.is_forbidden
            and len(partition.progress) <= limit
        ]

    # ---- handing out

    def next(self) -> Received | None:
        """Return the next event; None without one, or if enough are handed out."""
        turn = self._turn
        if self._is_ending or self._outstanding >= self._options.concurrency:
            return None
        while turn:
            partition = turn[0]
            received = partition.hand_out()
            if received is None:
                turn.popleft()
                partition.in_turn = False
                continue
            turn.rotate(-1)
            self._outstanding += 1
            self._idle.clear()
            return received
        return None

    def ready(self, partition: OwnedPartition) -> None:
        """Note that a partition has events to hand out."""
        if not partition.in_turn:
            partition.in_turn = True
            self._turn.append(partition)
        self._wake()

    def done(self, received: Received) -> None:
        """Count an event that is done."""
        if self._has_ended:
            self._counts.stale_done += 1
        else:
            self._counts.processed += 1
        self._returned()

    def _returned(self) -> None:
        was_full = self._outstanding >= self._options.concurrency
        self._outstanding -= 1
        if not self._outstanding:
            self._idle.set()
        if was_full:
            self._wake()

    def failed(
        self, partition: OwnedPartition, received: Received, error: BaseException | str
    ) -> None:
        """Retry a failed event after a wait, or handle it as `Retries.then` says."""
        if self._has_ended:  # the partition's present owner gets it
            self._counts.stale_done += 1
            self._returned()
            return
        self._counts.failed += 1
        retries = self._options.retries
        if received.attempt < retries.attempts:
            self._returned()
            if not self._is_ending:
                self._again_in(retries.wait_s(received.attempt), partition, received)
            return
        log.error("%r failed its last attempt: %s", received, error)
        if retries.then == "skip":
            self._counts.skipped += 1
            partition.done(received)
        elif retries.then == "dead-letter":
            self._tasks.spawn(self._bury(partition, received, error), "dead letter")
        else:
            self._returned()
            if retries.then == "stop":
                self._give_up(self._failures.gave_up(received, error))

    def _again_in(self, wait_s: float, partition: OwnedPartition, received: Received) -> None:
        def due() -> None:
            self._timers.discard(timer)
            partition.again(received)

        timer = asyncio.get_running_loop().call_later(wait_s, due)
        self._timers.add(timer)

    async def _bury(
        self, partition: OwnedPartition, received: Received, error: BaseException | str
    ) -> None:
        try:
            await self._failures.bury(received, error)
        except Exception as trouble:  # like `stop`: it stays uncommitted, and the consumer ends
            self._returned()
            self._give_up(self._failures.gave_up(received, trouble))
            return
        self._counts.dead_letters += 1
        partition.done(received)

    # ---- pauses

    def apply_pauses(self) -> None:
        """Set the flags of the consumer and of the partitions by intent. Never awaits."""
        for tp, partition in self.partitions.items():
            forbidden = self._pauses.forbids(tp.topic, tp.partition)
            partition.is_forbidden = forbidden
            if not self._ownership.is_current(partition.owned):
                continue
            if forbidden or not partition.may_be_read:
                self._consumer.pause(tp)
            else:
                self._consumer.resume(tp)
                if partition.has_ready:
                    self.ready(partition)

    # ---- the end

    async def end(self) -> None:
        """Hand out nothing more, wait for events that are handed out, and commit. Bounded."""
        begun = time.monotonic()
        self._is_ending = True
        for timer in self._timers:
            timer.cancel()
        try:
            async with asyncio.timeout(self._options.drain_s):
                await self._idle.wait()
        except TimeoutError:
            log.warning("%d events are unfinished and will be redelivered", self._outstanding)
        self._counts.drain_s += time.monotonic() - begun
        self._counts.revokes += 1
        self._has_ended = True
        # A commit in flight is dropped: it must not be sent in the group's next generation.
        await self._tasks.end(_END_S)
        try:
            async with asyncio.timeout(_FINAL_COMMIT_S):
                await self.commit()
        except TimeoutError:
            self._counts.stale_commits += 1
            log.warning("last offsets of this assignment were not committed in time")
