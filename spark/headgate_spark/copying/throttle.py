"""How fast a job may read from a broker: a bucket of bytes that may run into debt, told the time.

A fetch's size is known when its answer is there, so the answer is paid for by waiting before the
next request: over any time longer than an answer's the rate is kept.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.structs import TopicPartition

_MIN_FETCH_BYTES, MAX_FETCH_BYTES = 65_536, 4_194_304
_MAX_ANSWER_BYTES = 16_777_216  # of several partitions
_SAVED_S = 0.5
_FETCHES_A_SECOND = 4  # an answer is at most so much of a second's bytes


class Bucket:
    """rate: bytes a second.

    What was not read in a pause, as between two chunks, is made up for, but no more than half a
    second's.
    """

    def __init__(self, rate: float, now_s: float) -> None:
        self._rate = rate
        self._free_at_s = now_s

    def wait_s(self, now_s: float) -> float:
        """How long to wait before the next request."""
        return max(0.0, self._free_at_s - now_s)

    def spend(self, count: int, now_s: float) -> None:
        """These bytes came."""
        self._free_at_s = max(self._free_at_s, now_s - _SAVED_S) + count / self._rate


class BrokerBuckets:
    """One bucket a source broker, shared by all that a task reads. rate: None = no limit.

    within: what is read counts there, too, and waits for it.
    """

    def __init__(self, rate: float | None, within: "BrokerBuckets | None" = None) -> None:
        self._rate = rate
        self._within = within
        self._buckets: dict[int, Bucket] = {}

    def fetch_bytes(self) -> int:
        """How much to ask for at a time, of one partition."""
        if self._within is not None:
            alone = BrokerBuckets(self._rate)
            return min(alone.fetch_bytes(), self._within.fetch_bytes())
        if self._rate is None:
            return MAX_FETCH_BYTES
        wanted = int(self._rate / _FETCHES_A_SECOND)
        return min(MAX_FETCH_BYTES, max(_MIN_FETCH_BYTES, wanted))

    def answer_bytes(self) -> int:
        """How much to ask for at a time, of all partitions: a fraction of a second's bytes, too."""
        return self.fetch_bytes() if self._is_limited else _MAX_ANSWER_BYTES

    @property
    def _is_limited(self) -> bool:
        return self._rate is not None or (self._within is not None and self._within._is_limited)

    def throttle(
        self, client: AIOKafkaClient, count: Callable[[TopicPartition, int], None]
    ) -> None:
        """Make this client's fetches wait.

        Args:
            client: The client.
            count: Called for each partition of an answer with the bytes of its records, as they
                came.
        """
        send = client.send
        clock = asyncio.get_running_loop().time

        async def send_in_time(node: int, request: Any, **options: Any) -> Any:
            if not isinstance(request, FetchRequest):
                return await send(node, request, **options)
            buckets = self._of(node, clock())
            if buckets:
                await asyncio.sleep(max(bucket.wait_s(clock()) for bucket in buckets))
            begun_s = clock()
            answer = await send(node, request, **options)
            size = 0
            for topic, partitions in answer.topics:
                for partition in partitions:
                    records = len(partition[-1] or b"")
                    count(TopicPartition(topic, partition[0]), records)
                    size += records
            for bucket in buckets:
                bucket.spend(size, begun_s)
            return answer

        client.send = send_in_time

    def _of(self, node: int, now_s: float) -> list[Bucket]:
        outer = [] if self._within is None else self._within._of(node, now_s)
        if self._rate is None:
            return outer
        if node not in self._buckets:
            self._buckets[node] = Bucket(self._rate, now_s)
        return [self._buckets[node], *outer]
