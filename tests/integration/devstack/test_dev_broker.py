"""The development stack's brokers and Redis, and the fixtures that other tests build on."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil
import pytest
from confluent_kafka import Producer

from headgate.devstack.ports import accepts
from headgate.devstack.servers import answers_ping
from support.kafka.kafka_log import end_offsets, read_log
from support.process.stack import Gateway, RunningBroker, RunningCluster, RunningRedis, eventually

pytestmark = pytest.mark.kafka


def write(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value, key=b"k", headers={"a": b"1"}, partition=0)
    assert producer.flush(90) == 0


def test_log_reader_returns_what_was_written(kafka: RunningBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 2, {"cleanup.policy": "compact"})
    before_ms = time.time() * 1000
    write(kafka.bootstrap, topic_name, b"one", b"two")
    records = read_log(kafka.bootstrap, topic_name)
    assert [one[:5] for one in records] == [
        (0, 0, b"k", b"one", [("a", b"1")]),
        (0, 1, b"k", b"two", [("a", b"1")]),
    ]
    assert records[0].timestamp_ms >= before_ms - 1000
    assert end_offsets(kafka.bootstrap, topic_name) == {0: 2, 1: 0}
    assert any(path.name == f"{topic_name}-0" for path in kafka.log_dir.iterdir())


def test_killed_broker_keeps_its_data_and_port(
    start_broker: Callable[..., RunningBroker], topic_name: str
) -> None:
    broker = start_broker()
    broker.create_topic(topic_name)
    write(broker.bootstrap, topic_name, b"kept")
    broker.kill()
    assert broker.exit_code == -9
    assert not accepts(broker.plan.port)
    broker.restart()
    assert [one.value for one in read_log(broker.bootstrap, topic_name)] == [b"kept"]
    broker.stop()
    assert broker.exit_code == 143  # Java's way to say that SIGTERM was obeyed
    broker.restart()
    assert [one.value for one in read_log(broker.bootstrap, topic_name)] == [b"kept"]


async def test_paused_redis_answers_after_resume(start_redis: Callable[..., RunningRedis]) -> None:
    server = start_redis()
    server.pause()
    assert not answers_ping(server.port)
    server.resume()
    await eventually(lambda: answers_ping(server.port))


@pytest.mark.full
async def test_gateway_fixture_runs_a_real_process_tree(
    kafka: RunningBroker, start_gateway: Callable[..., Gateway], topic_name: str
) -> None:
    kafka.create_topic(topic_name)
    gateway = start_gateway(
        f'[clusters.main]\nbootstrap_servers = ["{kafka.bootstrap}"]\n'
        f'[topics."{topic_name}"]\nkey = ["/id"]\n'
    )
    assert gateway.is_ready()
    pids = gateway.pids
    assert len(pids) >= 2  # the parent and a worker
    gateway.stop()
    assert gateway.exit_code == 0, gateway.log()
    await eventually(lambda: not [pid for pid in pids if psutil.pid_exists(pid)])
    gateway.restart()
    gateway.kill()
    assert gateway.exit_code == -9
    assert not gateway.is_ready()


@pytest.mark.full
def test_cluster_replicates(start_cluster: Callable[..., RunningCluster], topic_name: str) -> None:
    cluster = start_cluster(3)
    cluster.create_topic(topic_name)
    write(cluster.bootstrap, topic_name, b"one")
    cluster.nodes[0].kill()
    write(cluster.bootstrap, topic_name, b"two")
    survivors = ",".join(node.bootstrap for node in cluster.nodes[1:])
    assert [one.value for one in read_log(survivors, topic_name)] == [b"one", b"two"]
