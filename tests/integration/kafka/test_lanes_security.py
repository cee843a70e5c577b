"""Lanes over TLS with SASL, against a real broker that asks for both."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from headgate.devstack.ports import LOOPBACK
from headgate.devstack.servers import KafkaInstallation
from headgate.kafka.access import OAuthClient
from headgate.model.outcome import Reason
from support.kafka.kafka_log import read_log
from support.kafka.lane_history import running_lanes
from support.kafka.secured_broker import SECRET, ClientCertificate, SecuredBroker
from support.process.stack import eventually, free_port

pytestmark = pytest.mark.kafka

NO_TOKEN = OAuthClient(f"http://{LOOPBACK}:{free_port()}/token", "gate", SECRET)


@pytest.fixture(scope="module")
def broker(
    kafka_installation: KafkaInstallation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredBroker]:
    secured = SecuredBroker(kafka_installation, tmp_path_factory.mktemp("secured"))
    try:
        secured.node.wait()
        yield secured
    finally:
        secured.node.kill()


async def test_lanes_over_tls_and_sasl(broker: SecuredBroker, topic_name: str) -> None:
    broker.node.create_topic(topic_name, 2)
    async with running_lanes(
        broker.bootstrap,
        topic_name,
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="gate",
        sasl_password=SECRET,
        ssl_cafile=str(broker.authority),
        delivery_timeout_ms=5_000,  # a first handshake takes its time
    ) as world:
        for number in range(200):
            world.put(topic_name, number % 2)
        await world.all_ended()
        assert len(world.history.offsets) == 200
        broker.node.pause()  # sockets with TLS are dropped as quickly
        world.put(topic_name, 0)
        await world.all_ended()
        broker.node.resume()
        await eventually(lambda: world.lanes.health("main")[0])
        world.put(topic_name, 0)
        await world.all_ended()
        assert set(world.history.rebuilds) == {"delivery_timeout"}
        world.history.check(await asyncio.to_thread(read_log, broker.node.bootstrap, topic_name))


async def test_topic_that_may_not_be_written_is_refused_at_once(
    broker: SecuredBroker, topic_name: str
) -> None:
    plain = broker.node.bootstrap
    broker.node.create_topic(topic_name)
    broker.allow("guest", ResourceType.TOPIC, topic_name, AclOperation.DESCRIBE)
    # Kafka gives a producer id to whoever may write some topic.
    broker.allow("guest", ResourceType.TOPIC, f"{topic_name}-other", AclOperation.WRITE)
    async with running_lanes(
        broker.bootstrap,
        topic_name,
        security_protocol="SASL_SSL",
        sasl_username="guest",
        sasl_password=SECRET,
        ssl_cafile=str(broker.authority),
    ) as world:
        await eventually(lambda: world.lanes.health("main")[0], 15)
        await eventually(
            lambda: world.topics.missing_reason(topic_name) and world.topics.get(topic_name)
        )
        for _ in range(100):
            world.put(topic_name, 0)
        await world.all_ended()
        assert world.history.reasons() == {Reason.BROKER_REFUSED: 100}
        assert set(world.history.handed.values()) == {1}, "no record is tried twice"
        broker.allow("guest", ResourceType.TOPIC, topic_name, AclOperation.WRITE)
        # The broker takes a moment to apply the rule; until then it refuses.
        await eventually(lambda: world.put(topic_name, 0) and world.history.offsets, 15)
        await world.all_ended()
        assert world.history.rebuilds == []
        world.history.check(await asyncio.to_thread(read_log, plain, topic_name))


# asyncio lets go of the socket of a TLS handshake that failed without closing its
# transport; they are collected inside the test, or the warning would hit another one.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize(
    ("wrong", "cause", "option"),
    [
        ({"sasl_password": "guess"}, "the credentials are refused", "sasl_username"),
        (
            {"sasl_mechanism": "OAUTHBEARER", "oauth": NO_TOKEN},
            "it does not offer this SASL mechanism",
            "sasl_mechanism",
        ),
        (
            {"security_protocol": "SASL_PLAINTEXT"},
            "the other side closed the connection",
            "security_protocol",
        ),
        ({"ssl_cafile": None}, "its certificate is not trusted", "ssl_cafile"),
    ],
)
async def test_wrong_credentials_are_told_and_nothing_hangs(
    broker: SecuredBroker, topic_name: str, wrong: dict[str, Any], cause: str, option: str
) -> None:
    right = {
        "security_protocol": "SASL_SSL",
        "sasl_username": "gate",
        "sasl_password": SECRET,
        "ssl_cafile": str(broker.authority),
    }
    async with running_lanes(broker.bootstrap, topic_name, **{**right, **wrong}) as world:
        await eventually(lambda: "cannot connect" in world.lanes.health("main")[1])
        assert not world.lanes.health("main")[0]
        await eventually(lambda: "no answer" in world.topics.detail("main"))
        assert not world.topics.healthy("main")
        for detail in (world.topics.detail("main"), world.lanes.health("main")[1]):
            assert cause in detail
            assert detail.endswith(f"(see clusters.main.{option})")
    gc.collect()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_lanes_with_scram(broker: SecuredBroker, topic_name: str, mechanism: str) -> None:
    broker.node.create_topic(topic_name, 2)
    broker.add_scram("gate", mechanism)
    async with running_lanes(
        broker.bootstrap,
        topic_name,
        security_protocol="SASL_SSL",
        sasl_mechanism=mechanism,
        sasl_username="gate",
        sasl_password=SECRET,
        ssl_cafile=str(broker.authority),
    ) as world:
        for number in range(200):
            world.put(topic_name, number % 2)
        await world.all_ended()
        assert len(world.history.offsets) == 200
        world.history.check(await asyncio.to_thread(read_log, broker.node.bootstrap, topic_name))


async def test_lanes_with_a_client_certificate(broker: SecuredBroker, topic_name: str) -> None:
    broker.node.create_topic(topic_name, 2)
    async with running_lanes(
        broker.mutual,
        topic_name,
        security_protocol="SSL",
        ssl_cafile=str(broker.authority),
        ssl_certfile=str(broker.certificate.file),
        ssl_keyfile=str(broker.certificate.key),
    ) as world:
        for number in range(200):
            world.put(topic_name, number % 2)
        await world.all_ended()
        assert len(world.history.offsets) == 200
        world.history.check(await asyncio.to_thread(read_log, broker.node.bootstrap, topic_name))


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("given", ["none", "of another authority"])
async def test_without_a_certificate_that_is_known_nobody_comes_in(
    broker: SecuredBroker, topic_name: str, given: str, tmp_path: Path
) -> None:
    other = ClientCertificate(tmp_path, "certified")
    own = {} if given == "none" else {"ssl_certfile": other.file, "ssl_keyfile": other.key}
    async with running_lanes(
        broker.mutual,
        topic_name,
        security_protocol="SSL",
        ssl_cafile=str(broker.authority),
        **own,
    ) as world:
        await eventually(lambda: "cannot connect" in world.lanes.health("main")[1])
        assert not world.lanes.health("main")[0]
    gc.collect()
