"""What the jobs' transactional producers have in common.

Private parts of aiokafka 0.14: a sender that was fenced ends, and whoever calls then meets an
assertion of aiokafka's, so the sender is asked what ended it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import InvalidProducerEpoch, ProducerFenced

_FENCED = (ProducerFenced, InvalidProducerEpoch)


async def send(
    producer: AIOKafkaProducer, builder: Any, topic: str, partition: int
) -> asyncio.Future[Any]:
    """Hand a batch over; the future tells its place. Raises what aiokafka raises."""
    sent: asyncio.Future[Any] = await producer.send_batch(builder, topic, partition=partition)
    # A step before may fail first; then nobody asks this one.
    sent.add_done_callback(lambda done: done.cancelled() or done.exception())
    return sent


def is_fenced(producer: AIOKafkaProducer, error: BaseException) -> bool:
    """Whether a later producer with the same transactional id has taken over."""
    sender = producer._sender.sender_task
    is_over = sender is not None and sender.done() and not sender.cancelled()
    return isinstance(error, _FENCED) or (is_over and isinstance(sender.exception(), _FENCED))
