"""A client whose start is broken off leaves no connection open.

aiokafka forgets the one that it has asked for the first metadata.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient

from headgate.kafka.aiokafka_internals import drop_client, use_own_metadata
from support.kafka.kafka_relay import kafka_relay
from support.process.stack import RunningBroker, eventually

pytestmark = pytest.mark.kafka

KINDS: dict[str, tuple[Callable[..., Any], Callable[[Any], AIOKafkaClient]]] = {
    "client": (AIOKafkaClient, lambda one: one),
    "consumer": (AIOKafkaConsumer, lambda one: one._client),
    "producer": (AIOKafkaProducer, lambda one: one.client),
    "admin": (AIOKafkaAdminClient, lambda one: one._client),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_start_that_is_broken_off_closes_its_connection(
    kind: str, kafka: RunningBroker
) -> None:
    make, client_of = KINDS[kind]
    async with kafka_relay(kafka.bootstrap) as relay:
        relay.tells_metadata.clear()
        made = make(bootstrap_servers=relay.bootstrap)
        client = client_of(made)
        use_own_metadata(client)
        start = client.bootstrap if kind == "client" else made.start
        starting = asyncio.create_task(start())
        await eventually(lambda: relay.silent == 1)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        gc.collect()  # warns of a connection that is open, which fails the test
        made._closed = True  # what `stop` sets, which has nothing to end
        await drop_client(client)
