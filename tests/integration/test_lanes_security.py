"""Lanes over TLS with SASL, against a real broker that asks for both."""

from __future__ import annotations

import asyncio
import gc
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from headgate.core.outcome import Reason
from headgate.devstack.broker import KafkaInstallation
from headgate.devstack.ports import LOOPBACK
from kafka_log import read_log
from lane_history import running_lanes
from stack import RunningBroker, eventually, free_port, single_node

pytestmark = pytest.mark.kafka

SECRET = "let-me-in"
STORE_PASSWORD = "changeit"


class SecuredBroker:
    """A broker with a second listener; `authority` is the file with its certificate."""

    def __init__(self, installation: KafkaInstallation, directory: Path) -> None:
        store, self.authority = make_certificate(installation, directory)
        self.bootstrap = f"{LOOPBACK}:{free_port()}"
        plan = single_node(directory / "node")
        users = f'user_gate="{SECRET}" user_guest="{SECRET}"'
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        plain = f"PLAINTEXT://{plan.bootstrap}"
        secured = f"SECURED://{self.bootstrap}"
        controller = f"CONTROLLER://{LOOPBACK}:{plan.controller_port}"
        options = {
            "listeners": f"{plain},{secured},{controller}",
            "advertised.listeners": f"{plain},{secured}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "SECURED:SASL_SSL",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:gate",
            "listener.name.secured.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secured.plain.sasl.jaas.config": f"{module} required {users};",
            "listener.name.secured.ssl.keystore.location": str(store),
            "listener.name.secured.ssl.keystore.password": STORE_PASSWORD,
            "listener.name.secured.ssl.keystore.type": "PKCS12",
        }
        self.node = RunningBroker(installation, replace(plan, options=options))


def make_certificate(installation: KafkaInstallation, directory: Path) -> tuple[Path, Path]:
    """Make a key and a certificate for the loopback address, with Java's keytool."""
    keytool = installation.java.resolve().parent / "keytool"
    store, certificate = directory / "keys.p12", directory / "authority.pem"
    common = ["-keystore", str(store), "-storepass", STORE_PASSWORD, "-alias", "broker"]
    pair = ["-genkeypair", "-keyalg", "RSA", "-validity", "2", "-dname", "CN=broker"]
    pair += ["-ext", f"san=ip:{LOOPBACK}", "-ext", "bc=ca:true", "-storetype", "PKCS12"]
    export = ["-exportcert", "-rfc", "-file", str(certificate)]
    for step in (pair, export):
        subprocess.run([str(keytool), *step, *common], check=True, capture_output=True)
    return store, certificate


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


def allow_guest(bootstrap: str, topic: str, *operations: AclOperation) -> None:
    allow = AclPermissionType.ALLOW
    literal = ResourcePatternType.LITERAL
    rules = [
        AclBinding(ResourceType.TOPIC, topic, literal, "User:guest", "*", operation, allow)
        for operation in operations
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_acls(rules).values():
        done.result(30)


async def test_topic_that_may_not_be_written_is_refused_at_once(
    broker: SecuredBroker, topic_name: str
) -> None:
    plain = broker.node.bootstrap
    broker.node.create_topic(topic_name)
    allow_guest(plain, topic_name, AclOperation.DESCRIBE)
    # Kafka gives a producer id to whoever may write some topic.
    allow_guest(plain, f"{topic_name}-other", AclOperation.WRITE)
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
            lambda: world.topics.why_missing(topic_name) and world.topics.get(topic_name)
        )
        for _ in range(100):
            world.put(topic_name, 0)
        await world.all_ended()
        assert world.history.reasons() == {Reason.BROKER_REFUSED: 100}
        assert set(world.history.handed.values()) == {1}, "no record is tried twice"
        allow_guest(plain, topic_name, AclOperation.WRITE)
        # The broker takes a moment to apply the rule; until then it refuses.
        await eventually(lambda: world.put(topic_name, 0) and world.history.offsets, 15)
        await world.all_ended()
        assert world.history.rebuilds == []
        world.history.check(await asyncio.to_thread(read_log, plain, topic_name))


# asyncio lets go of the socket of a TLS handshake that failed without closing its
# transport; they are collected inside the test, or the warning would hit another one.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize(
    "wrong",
    [{"sasl_password": "guess"}, {"security_protocol": "SASL_PLAINTEXT"}, {"ssl_cafile": None}],
)
async def test_wrong_credentials_are_told_and_nothing_hangs(
    broker: SecuredBroker, topic_name: str, wrong: dict[str, str | None]
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
    gc.collect()
