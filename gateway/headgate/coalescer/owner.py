"""Owns one partition for one epoch: one session after the other, until the term ends."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from aiokafka import AIOKafkaConsumer

from headgate.backends.kafka.options import ClusterOptions
from headgate.backends.kafka.transactions import TransactionalProducer
from headgate.coalescer.base import CoalescingRules, Decisions, LogError
from headgate.coalescer.held_partition import FENCED, CoalescedTopic, KafkaHeldPartition
from headgate.coalescer.partition_session import PartitionSession
from headgate.coalescer.turns import Turns
from headgate.core.coalescing.coalesce import Figures
from headgate.core.coalescing.window import Sum, Window
from headgate.core.outcome import Name
from headgate.core.topics.route import Route

log = logging.getLogger("headgate.coalescer.owner")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 10.0
_LIVED_S = 30.0  # after so long a session the next failure is a new one


_NOTHING = Sum(0, 0)


def _tell_nobody(outcome: str, windows: Sequence[Window]) -> None:
    """Where no facts are told."""


class Count(Protocol):
    """Who counts what became of held events, and how often sessions ended early."""

    def coalesced(
        self, producer: str, topic: str, outcome: str, events: int, size: int
    ) -> None: ...

    def owner_restarted(self, topic: str, reason: str) -> None: ...


class OwnerContext(NamedTuple):
    """What an owner needs of its process.

    route: the topic's in force, raising LogError.  topic_id: of H, hex; raising LogError.
    rules: the topic's now, None = it is not held here any more.  is_mine: whether the term lasts.
    fenced_pause_s: long enough for the group to say that the partition is another member's
    (rule 10).  turns: of the process.  report: of windows that ended for good, as
    `base.AssignmentHost.ended`.
    """

    cluster: ClusterOptions
    transactional_id: str
    decisions: Decisions
    counts: Count
    route: Callable[[], Route]
    topic_id: Callable[[], str]
    rules: Callable[[], CoalescingRules | None]
    is_mine: Callable[[], bool]
    now_ms: Callable[[], int]
    fenced_pause_s: float
    turns: Turns
    report: Callable[[str, Sequence[Window]], None] = _tell_nobody


class PartitionOwner:
    """See the module. figures: what it holds now."""

    def __init__(
        self, consumer: AIOKafkaConsumer, place: CoalescedTopic, context: OwnerContext
    ) -> None:
        self.place = place
        self.figures = Figures(0, 0, None)
        self._consumer = consumer
        self._context = context
        self._stop = asyncio.Event()
        self._partition: KafkaHeldPartition | None = None
        self._rules = context.rules()

    def stop(self) -> None:
        """End after the transaction that is under way."""
        self._stop.set()
        if self._partition is not None:
            self._partition.hurry()

    async def run(self) -> None:
        """Live until the term ends or `stop`."""
        pause_s = _FIRST_PAUSE_S
        while not self._stop.is_set() and self._context.is_mine():
            began = asyncio.get_running_loop().time()
            failure = await self._live()
            self.figures = Figures(0, 0, None)
            if failure is None or self._stop.is_set() or not self._context.is_mine():
                continue
            self._report(failure)
            lived = asyncio.get_running_loop().time() - began > _LIVED_S
            pause_s = _FIRST_PAUSE_S if lived else min(2 * pause_s, _LONGEST_PAUSE_S)
            fenced = failure.label == FENCED
            await self._pause_s(max(pause_s, self._context.fenced_pause_s if fenced else 0.0))

    async def _live(self) -> LogError | None:
        context = self._context
        rules = self._rules = context.rules()
        if rules is None:
            return LogError("not_coalescing", "nothing of the topic is held here any more")
        producer: TransactionalProducer | None = None
        try:
            state = context.route().state
            producer = TransactionalProducer(
                context.cluster, context.transactional_id, state.batch_limit_bytes
            )
            self._partition = KafkaHeldPartition(
                self._consumer, producer, self.place, context.is_mine, context.now_ms
            )
            await PartitionSession(self._partition, context.decisions, rules, self).run()
        except LogError as error:
            return error
        finally:
            self._partition = None
            if producer is not None:
                await producer.drop()
        return None

    def _report(self, failure: LogError) -> None:
        self._context.counts.owner_restarted(self.place.topic, failure.label)
        log.warning("coalescing %s-%d restarts: %s", self.place.held, self.place.partition, failure)

    # ---- base.AssignmentHost

    def now_ms(self) -> int:
        return self._context.now_ms()

    def is_stopping(self) -> bool:
        """Also when the topic's rules are others now: another session takes them."""
        return self._stop.is_set() or self._context.rules() != self._rules

    async def turn(self) -> None:
        await self._context.turns.take()

    async def pause(self, milliseconds: int) -> None:
        await self._pause_s(milliseconds / 1000)

    async def _pause_s(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return

    def route(self) -> Route:
        return self._context.route()

    def topic_id(self) -> str:
        return self._context.topic_id()

    def ended(self, outcome: str, windows: Sequence[Window]) -> None:
        sums: dict[tuple[str, str], Sum] = {}
        for window in windows:
            last = (window.last.producer, outcome)
            sums[last] = sums.get(last, _NOTHING).plus(Sum.of(window.last))
            for producer, more in window.superseded.items():
                other = (producer, str(Name.SUPERSEDED))
                sums[other] = sums.get(other, _NOTHING).plus(more)
        for (producer, name), total in sums.items():
            self._context.counts.coalesced(producer, self.place.topic, name, *total)
        self._context.report(outcome, windows)

    def show(self, figures: Figures) -> None:
        self.figures = figures
