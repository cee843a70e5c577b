"""Who waits for the mirror: gateways say in the registry up to which offset they need a topic.

One consumer in each task, of what is new only: a copier that starts copies at once in any case.
Where the registry cannot be read, nothing is lost but time: the next commit comes at its interval.
"""

import asyncio
import logging
from collections.abc import Mapping

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from headgate.kafka.aiokafka_internals import drop_consumer
from headgate.replays.registry import REGISTRY_TOPIC, read_wanted
from headgate_spark.job.connections import Connection
from headgate_spark.kafka.kafka_clients import CLIENT_ERRORS, open_consumer

log = logging.getLogger("headgate_spark.waiters")

_REGISTRY = TopicPartition(REGISTRY_TOPIC, 0)
_POLL_MS = 1_000
_START_S = 30.0
_AGAIN_S = 10.0
_HURRY_S = 30.0  # for so long an offset is hurried to; who waits has given up by then


class Waiter:
    """Of one partition: up to which offset somebody waits for it."""

    def __init__(self) -> None:
        self._end, self._until_s = -1, 0.0
        self._news = asyncio.Event()

    def want(self, end: int) -> None:
        """Somebody waits for what is before this offset."""
        self._end, self._until_s = end, asyncio.get_running_loop().time() + _HURRY_S
        self._news.set()

    def is_waiting(self, position: int) -> bool:
        """Whether what has been copied so far is not enough."""
        return position < self._end and asyncio.get_running_loop().time() < self._until_s

    async def rest(self, position: int, seconds: float) -> None:
        """Sleep, until somebody waits for more than has been copied."""
        end_s = asyncio.get_running_loop().time() + seconds
        while not self.is_waiting(position):
            left_s = end_s - asyncio.get_running_loop().time()
            self._news.clear()
            try:
                async with asyncio.timeout(max(0.0, left_s)):
                    await self._news.wait()
            except TimeoutError:
                return


async def watch(target: Connection, waiters: Mapping[tuple[str, int], Waiter]) -> None:
    """Tell waiters what the registry says from now on, until it is cancelled."""
    while True:
        consumer = open_consumer(target, fetch_max_wait_ms=_POLL_MS)
        try:
            await _follow(consumer, waiters)
        except CLIENT_ERRORS as error:
            log.info(
                "replays that wait for the mirror are unknown: %s: %s", type(error).__name__, error
            )
        finally:
            await drop_consumer(consumer)
        await asyncio.sleep(_AGAIN_S)


async def _follow(consumer: AIOKafkaConsumer, waiters: Mapping[tuple[str, int], Waiter]) -> None:
    async with asyncio.timeout(_START_S):
        await consumer.start()
        consumer.assign([_REGISTRY])
        ends = await consumer.end_offsets([_REGISTRY])
    consumer.seek(_REGISTRY, ends[_REGISTRY])
    while True:
        for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
            for record in records:
                for owner, end in read_wanted(record.key, record.value).items():
                    if owner in waiters:
                        waiters[owner].want(end)
