"""A post to a topic that was just deleted, before the gateway has heard of it, on real Kafka."""

import asyncio
import os
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from headgate.config import load
from headgate.wiring.app import Worker
from support.clients.http_client import JSON, Answer, exchange
from support.process.stack import RunningBroker, eventually, free_port

pytestmark = pytest.mark.kafka

CONFIG = """
[http]
port = {port}
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 60000
[topics."{topic}*"]
key = ["/id"]
"""


async def test_a_deleted_topic_is_unknown_and_costs_no_other(
    kafka: RunningBroker, topic_name: str, tmp_path: Path
) -> None:
    other = f"{topic_name}-other"
    for name in (topic_name, other):
        kafka.create_topic(name, 1)
    port, config = free_port(), tmp_path / "headgate.toml"
    config.write_text(CONFIG.format(port=port, bootstrap=kafka.bootstrap, topic=topic_name))

    async def post(topic: str, body: bytes) -> Answer:
        path = f"/v1/topics/{topic}/events"
        return await asyncio.to_thread(exchange, port, "POST", path, JSON, body)

    worker = Worker(load(config, os.environ), 1, None)
    await worker.start()
    try:
        for name in (topic_name, other):
            await eventually(lambda name=name: worker.topics.get(name) is not None, 30)
            assert (await post(name, b'{"id":1}')).status == 201
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})  # must outlive the call
        await asyncio.to_thread(admin.delete_topics([topic_name])[topic_name].result, 30)
        assert worker.topics.get(topic_name) is not None, "not heard of yet"
        producer = worker.lanes._clusters["main"].producer
        gone = asyncio.ensure_future(post(topic_name, b'[{"id":1},{"id":2}]'))
        while not gone.done():
            assert (await post(other, b'{"id":1}')).status == 201
        answer = await gone
        reasons = [one["reason"] for one in answer.document["outcomes"]]
        assert (answer.status, reasons) == (404, ["unknown_topic"] * 2), answer
        assert (await post(topic_name, b'{"id":1}')).status == 404
        assert worker.lanes._clusters["main"].producer is producer
    finally:
        await worker.drain()
