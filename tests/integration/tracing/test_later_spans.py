"""An event that is held or spooled keeps its trace to its record, with a span for the way there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headgate.devstack.child import Child
from headgate.model.trace import read_parent
from support.clients.http_client import JSON, post
from support.gateway.coalescing_gateway import config_text, run_init
from support.kafka.kafka_log import read_log
from support.network.otlp_receiver import OtlpReceiver, ReceivedSpan
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

SPAN = "00f067aa0ba902b7"
TRACING = '[tracing]\nendpoint = "{endpoint}"\nsample_one_in = 0\n'
SPOOLING = """
[http]
request_timeout_ms = 10000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
lane_stall_ms = 1500
[spool]
path = "{folder}"
[topics.deals]
key = ["/id"]
spool = true
spool_after_ms = 500
"""


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver().running() as running:
        yield running


def sampled(number: int) -> dict[str, str]:
    return {**JSON, "traceparent": f"00-{number:032x}-{SPAN}-01"}


def named(receiver: OtlpReceiver, number: int, word: str) -> list[ReceivedSpan]:
    assert receiver.problems == []
    trace_id = f"{number:032x}"
    return [one for one in receiver.spans if one.trace_id == trace_id and one.name.startswith(word)]


@pytest.mark.kafka
async def test_spooled_events(
    start_broker: Callable[..., RunningBroker],
    start_gateway: Callable[..., Gateway],
    receiver: OtlpReceiver,
    tmp_path: Path,
) -> None:
    broker = start_broker()
    broker.create_topic("deals", 3)
    spooling = SPOOLING.format(bootstrap=broker.bootstrap, folder=tmp_path / "spool")
    gateway = start_gateway(spooling + TRACING.format(endpoint=receiver.endpoint))

    def ask(number: int) -> int:
        body = json.dumps({"id": number}).encode()
        return post(gateway.port, "deals", body, sampled(number)).status

    assert ask(1) == 201
    broker.kill()
    answers = {number: ask(number) for number in range(2, 5)}
    # the first of a lane waits there, later ones go to disk without it
    await eventually(
        lambda: (
            answers.update({len(answers) + 2: ask(len(answers) + 2)})
            or any(named(receiver, number, "spool deals") for number in answers)
        ),
        20,
    )
    assert set(answers.values()) == {202}
    last = max(answers)
    gateway.stop()  # what is spooled outlives it, and so do the traces
    broker.restart()
    gateway.restart()
    await eventually(lambda: all(named(receiver, number, "drain deals") for number in answers), 40)
    for number in answers:
        (drain,) = named(receiver, number, "drain deals")
        (request,) = named(receiver, number, "POST")
        assert request.attributes["headgate.spooled"] == 1
        made = [*named(receiver, number, "spool"), *named(receiver, number, "produce")]
        assert [(one.span_id, one.parent_id) for one in made] == [
            (drain.parent_id, request.span_id)
        ]
        assert drain.began_ns >= request.ended_ns
        assert drain.error == ""
    sent = {one.key: one for one in read_log(broker.bootstrap, "deals")}
    (drain,) = named(receiver, last, "drain deals")
    record = sent[str(last).encode()]
    context = read_parent(record.header("traceparent"))
    assert context is not None
    assert (context.trace_id, context.span_id) == (drain.trace_id, drain.parent_id)
    assert drain.attributes["messaging.kafka.offset"] == record.offset


@pytest.mark.kafka
@pytest.mark.redis
@pytest.mark.parametrize("apart", [False, True], ids=["in the gateway", "headgate coalesce"])
async def test_coalesced_events(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    receiver: OtlpReceiver,
    tmp_path: Path,
    apart: bool,
) -> None:
    kafka.create_topic(topic_name, 3)
    text = config_text(kafka, redis_server.url, topic_name)
    text += TRACING.format(endpoint=receiver.endpoint)
    if apart:
        text = text.replace("[coalescer]\n", "[coalescer]\nin_gateway = false\n")
    config = tmp_path / "headgate.toml"
    config.write_text(text)
    assert run_init(config).returncode == 0
    gateway = start_gateway(text)
    coalescer = None
    if apart:
        command = [sys.executable, "-m", "headgate", "coalesce", "--config", str(config)]
        log = tmp_path / "coalesce.log"
        coalescer = Child("coalesce", command, log, environment={**os.environ})
    try:
        for number in (1, 2, 3):
            body = json.dumps({"id": "d1", "n": number}).encode()
            assert post(gateway.port, topic_name, body, sampled(number)).status == 202
        coalesce, *_ = await eventually(lambda: named(receiver, 3, "coalesce "), 60)
    finally:
        if coalescer is not None:
            coalescer.kill()
    (record,) = read_log(kafka.bootstrap, topic_name)
    produce = receiver.of(f"{3:032x}")["produce"]
    assert coalesce.name == f"coalesce {topic_name}"
    assert (coalesce.parent_id, coalesce.error) == (produce.span_id, "")
    assert coalesce.attributes["headgate.superseded"] == 2
    assert coalesce.attributes["messaging.kafka.offset"] == record.offset
    context = read_parent(record.header("traceparent"))
    assert context is not None
    assert context.span_id == produce.span_id
    assert not named(receiver, 1, "coalesce "), "it was superseded"
