"""How far the held groups lag, for every gateway: also one whose coalescer owns nothing.

An event that is not coalesced before its held topic's retention deletes it is lost. So when the
group has not got past what was held half a retention ago, new events are refused (rule 14).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from headgate.backends.kafka.options import ClusterOptions
from headgate.backends.kafka.topics import READ_ERRORS
from headgate.core.outcome import Failure, Reason
from headgate.core.topics.topic import TopicState
from headgate.kafka.aiokafka_internals import drop_consumer, open_consumer

log = logging.getLogger("headgate.coalescer.watch")

_POLL_S = 5.0
_ANSWER_S = 10.0
_RETRY_AFTER_S = 30


class HeldLag(NamedTuple):
    """records: held and not yet covered by the group's offset.  is_too_old: some of them were
    there half a retention ago."""

    records: int
    is_too_old: bool


class HeldWatch:
    """Keeps the lag of one cluster's held topics. held: the states of those to watch, now."""

    def __init__(
        self,
        options: ClusterOptions,
        group: str,
        held: Callable[[], Iterable[TopicState]],
        now_ms: Callable[[], int],
    ) -> None:
        self._options = options
        self._group = group
        self._held = held
        self._now_ms = now_ms
        self.lags: dict[str, HeldLag] = {}

    async def run(self) -> None:
        """Look again and again."""
        consumer: AIOKafkaConsumer | None = None
        try:
            while True:
                states = list(self._held())
                if not states:
                    self.lags = {}
                else:
                    try:
                        async with asyncio.timeout(_ANSWER_S):
                            consumer = consumer or await self._connect()
                            self.lags = await self._poll(consumer, states)
                    except READ_ERRORS as error:
                        log.warning("lag of group %s is unknown: %r", self._group, error)
                        await _drop(consumer)
                        consumer = None
                await asyncio.sleep(_POLL_S)
        finally:
            await _drop(consumer)

    def refusal(self, held: str) -> Failure | None:
        """Why no more may be held in this topic, else None."""
        lag = self.lags.get(held)
        if lag is None or not lag.is_too_old:
            return None
        detail = (
            f"{lag.records} events in {held} wait for longer than half its retention: nothing "
            "more is held until the coalescer has caught up (runbook HeadgateHeldEventsWait)"
        )
        return Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=_RETRY_AFTER_S)

    async def _connect(self) -> AIOKafkaConsumer:
        # It never subscribes, so it is no member: the group is only asked for its offsets.
        consumer = open_consumer(
            self._options, group_id=self._group, isolation_level="read_committed"
        )
        try:
            await consumer.start()
        except BaseException:
            await _drop(consumer)
            raise
        return consumer

    async def _poll(
        self, consumer: AIOKafkaConsumer, states: Iterable[TopicState]
    ) -> dict[str, HeldLag]:
        lags = {}
        for state in states:
            consumer._client.add_topic(state.name)
            tps = [TopicPartition(state.name, number) for number in range(state.partitions)]
            committed: Mapping[TopicPartition, Any]
            committed = await consumer._coordinator.fetch_committed_offsets(tps)
            starts = await consumer.beginning_offsets(tps)
            ends = await consumer.end_offsets(tps)
            # Without an offset the coalescer begins at the earliest record.
            reached = {tp: max(_offset(committed.get(tp)), starts[tp]) for tp in tps}
            late = {tp for tp in tps if reached[tp] < ends[tp]}
            records = sum(ends[tp] - reached[tp] for tp in late)
            is_old = bool(late) and await self._is_too_old(consumer, state, late, reached)
            lags[state.name] = HeldLag(records, is_old)
        return lags

    async def _is_too_old(
        self,
        consumer: AIOKafkaConsumer,
        state: TopicState,
        late: Iterable[TopicPartition],
        reached: Mapping[TopicPartition, int],
    ) -> bool:
        """Whether the first record that is not covered was held before half a retention ago."""
        kept_ms = state.rules.kept_ms
        if kept_ms is None:
            return False
        since_ms = self._now_ms() - kept_ms // 2
        found = await consumer.offsets_for_times(dict.fromkeys(late, since_ms))
        # None: no record is younger than that, so all that is late is older.
        return any(one is None or reached[tp] < one.offset for tp, one in found.items())


def _offset(committed: Any) -> int:
    """aiokafka leaves out partitions for which nothing was ever committed."""
    return -1 if committed is None else int(committed.offset)


async def _drop(consumer: AIOKafkaConsumer | None) -> None:
    if consumer is not None:
        await drop_consumer(consumer)
