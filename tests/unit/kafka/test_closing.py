"""A client that is dropped leaves no connection open: that would be a warning, much later."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from headgate.kafka.aiokafka_internals import (
    drop_consumer,
    drop_producer,
    stop_consumer,
    stop_producer,
)

SERVERS = "127.0.0.1:1"  # nobody asks it


class Opened:
    """What is asked of a connection."""

    _writer = None

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Opening:
    """A task of aiokafka's: told to end it finishes its work first, and that may be to connect."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._began = asyncio.Event()
        self.opened = Opened()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            self._began.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._client._conns["late"] = self.opened
            raise

    async def began(self) -> None:
        await self._began.wait()


async def test_a_consumer_closes_what_was_being_opened() -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=SERVERS)
    opening = Opening(consumer._client)
    consumer._client._sync_task = opening.task
    await opening.began()
    await drop_consumer(consumer)
    assert opening.opened.is_closed
    assert not consumer._client._conns


async def test_a_producer_closes_what_was_being_opened() -> None:
    producer = AIOKafkaProducer(bootstrap_servers=SERVERS)
    opening = Opening(producer.client)
    producer._sender._sender_task = opening.task
    await opening.began()
    await drop_producer(producer)
    assert opening.opened.is_closed
    assert not producer.client._conns


async def test_a_stop_without_an_answer_ends_in_time_and_closes() -> None:
    """aiokafka's own stop waits for its requests, which a broken cluster never answers."""
    consumer = AIOKafkaConsumer(bootstrap_servers=SERVERS)
    producer = AIOKafkaProducer(bootstrap_servers=SERVERS)
    for client, stop in ((consumer, stop_consumer), (producer, stop_producer)):
        client.stop = asyncio.Event().wait
        connection = Opened()
        connections = consumer._client._conns if client is consumer else producer.client._conns
        connections["open"] = connection
        error = await asyncio.wait_for(stop(client, 0.01), 20)
        assert isinstance(error, TimeoutError)
        assert connection.is_closed
