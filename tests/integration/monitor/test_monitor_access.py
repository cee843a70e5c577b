"""A monitor that may not read `__consumer_offsets`: it goes by its polls, and says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from headgate.devstack.ports import LOOPBACK
from headgate.devstack.servers import KafkaInstallation
from headgate.kafka.options import ClusterOptions
from headgate.monitor.cluster_monitor import ClusterMonitor
from headgate.monitor.cluster_watch import WatchOptions
from headgate.monitor.monitor import Monitor, MonitorOptions
from support.kafka.rd_member import RdMember
from support.process.stack import RunningBroker, eventually, free_port, single_node
from support.scenarios.consumer_world import fill

pytestmark = pytest.mark.kafka

SECRET = "let-me-in"
# What docs/operate/consumer-groups.md asks for ("Rights"), without READ on __consumer_offsets.
GRANTED = [
    (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
    (ResourceType.GROUP, "*", AclOperation.DESCRIBE),
    (ResourceType.TOPIC, "*", AclOperation.DESCRIBE),
    (ResourceType.TOPIC, "*", AclOperation.DESCRIBE_CONFIGS),
]


@pytest.fixture
def guarded(kafka_installation: KafkaInstallation, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A broker's address for everybody, who may do everything, and for `guest`."""
    plan, secured = single_node(tmp_path / "node"), f"{LOOPBACK}:{free_port()}"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    listeners = f"PLAINTEXT://{plan.bootstrap},SECURED://{secured}"
    options = {
        "listeners": f"{listeners},CONTROLLER://{LOOPBACK}:{plan.controller_port}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SECURED:SASL_PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "listener.name.secured.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": f'{module} required user_guest="{SECRET}";',
    }
    node = RunningBroker(kafka_installation, replace(plan, options=options))
    try:
        node.wait()
        yield plan.bootstrap, secured
    finally:
        node.kill()


def has_seen(cluster: ClusterMonitor, group: str, offset: int) -> bool:
    """Whether a poll has found this commit: without the commit stream, polls are all there is."""
    found = cluster.judged.get(group)
    return found is not None and [one.committed for one in found.partitions] == [offset]


async def test_without_read_on_the_commits_polls_have_to_do(
    guarded: tuple[str, str], topic_name: str
) -> None:
    bootstrap, secured = guarded
    admin = AdminClient({"bootstrap.servers": bootstrap})
    allow, literal = AclPermissionType.ALLOW, ResourcePatternType.LITERAL
    bindings = [
        AclBinding(kind, name, literal, "User:guest", "*", operation, allow)
        for kind, name, operation in GRANTED
    ]
    for future in admin.create_acls(bindings).values():
        future.result()
    for future in admin.create_topics([NewTopic(topic_name, 1, 1)]).values():
        future.result()
    fill(bootstrap, topic_name, 1, 7)
    group = f"g-{topic_name}"
    member = RdMember(bootstrap, topic_name, group, "c1")
    options = ClusterOptions(
        secured,
        security_protocol="SASL_PLAINTEXT",
        sasl_username="guest",
        sasl_password=SECRET,
    )
    monitor = Monitor(
        {"main": options},
        MonitorOptions(WatchOptions(), 0.2, None),
        None,
        lambda: time.time_ns() // 1_000_000,
    )
    monitor.start()
    try:
        await eventually(lambda: member.owned() == {0}, 40)
        member.commit(0, 7)
        (cluster,) = monitor.clusters
        await eventually(lambda: has_seen(cluster, group, 7), 60)
        await eventually(lambda: "AUTHORIZATION" in cluster.status.commits, 60)
        (row,) = monitor.groups()["clusters"]
        assert not row["every_commit_is_seen"]
        member.commit(0, 4)

        def seen() -> bool:
            return bool(cluster.judged[group].state == "REWIND")

        await eventually(seen, 30)
        (fall,) = cluster.watch.regressions
        assert (fall.from_offset, fall.to_offset) == (7, 4)
        assert fall.owner is not None
        assert "c1" in fall.owner
    finally:
        await monitor.close()
        member.close()
