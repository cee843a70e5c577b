"""A Kafka node (broker and controller in one JVM) from jars, without Kafka's shell scripts."""

import base64
import shutil
import signal
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headgate.core.topics.internal_topics import replicas_on
from headgate.devstack.child import IDLE_S, Child
from headgate.devstack.ports import LOOPBACK
from headgate.devstack.probe import brokers_in_metadata

STOP_GRACE_S = 15.0
# C1 only and the serial collector: half the start time and a third of the memory of the defaults
# (measured: 2.3-3.5 s and 150 MB against 7 s).
JVM_FLAGS = ("-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_STORAGE_VERSION = 1  # of Kafka's meta.properties


@dataclass(frozen=True, slots=True)
class KafkaInstallation:
    """What every broker on this machine shares: Java, the ordered jars and two derived files."""

    java: Path
    jars: Sequence[Path]
    class_archive: Path | None  # AppCDS; None while it is being made
    bootstrap_checkpoint: Path

    def command(self, main_class: str, *flags: str) -> list[str]:
        """Return the start of a command line that runs a main class of the jars."""
        archive = (
            [f"-XX:SharedArchiveFile={self.class_archive}", "-Xshare:auto"]
            if self.class_archive
            else []
        )
        class_path = ":".join(str(jar) for jar in self.jars)
        return [str(self.java), *JVM_FLAGS, *archive, *flags, "-cp", class_path, main_class]


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """One node of a cluster. `voters` is Kafka's `controller.quorum.voters`."""

    directory: Path  # data in data/, settings in server.properties, output in broker.log
    cluster_id: str
    node_id: int
    port: int
    controller_port: int
    voters: str
    cluster_size: int = 1
    heap_mb: int = 384
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def data(self) -> Path:
        """The log directory."""
        return self.directory / "data"


def new_id() -> str:
    """Return a Kafka Uuid: 22 characters of URL-safe base64 that do not begin with a dash."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="))[0] == "-":
        pass
    return text


def start_node(installation: KafkaInstallation, plan: BrokerPlan, *jvm_flags: str) -> Child:
    """Start one node on its data, which is made when it is not there. Does not wait."""
    _format_storage(plan, installation.bootstrap_checkpoint)
    settings = plan.directory / "server.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in _settings(plan).items()))
    flags = (f"-Xmx{plan.heap_mb}m", *jvm_flags)
    return Child(
        f"kafka broker {plan.node_id} on port {plan.port}",
        [*installation.command("kafka.Kafka", *flags), str(settings)],
        plan.directory / "broker.log",
        signal_on_parent_death=signal.SIGTERM,  # a clean shutdown keeps the next start fast
    )


def wait_for_node(
    child: Child, plan: BrokerPlan, say: Callable[[str], None] = lambda line: None
) -> None:
    """Wait until this node answers with all brokers of its cluster. Raises StartError."""
    child.wait_until(
        lambda: brokers_in_metadata(LOOPBACK, plan.port) >= plan.cluster_size,
        say=say,
        idle_s=IDLE_S,
    )


def _format_storage(plan: BrokerPlan, checkpoint: Path) -> None:
    # What `kafka-storage format` does in 1.5 s of JVM, done by hand. The checkpoint matters:
    # without it the node starts too, but with metadata.version as its only feature, that is
    # without KIP-848 groups and transactions version 2.
    meta = plan.data / "meta.properties"
    if meta.exists():
        return
    plan.data.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(checkpoint, plan.data / "bootstrap.checkpoint")
    meta.write_text(
        f"version={_STORAGE_VERSION}\ncluster.id={plan.cluster_id}\n"
        f"node.id={plan.node_id}\ndirectory.id={new_id()}\n"
    )


def _settings(plan: BrokerPlan) -> dict[str, str]:
    replicas = str(replicas_on(plan.cluster_size))
    in_sync = str(min(2, plan.cluster_size))
    listeners = f"PLAINTEXT://{LOOPBACK}:{plan.port},CONTROLLER://{LOOPBACK}:{plan.controller_port}"
    return {
        "process.roles": "broker,controller",
        "node.id": str(plan.node_id),
        "controller.quorum.voters": plan.voters,
        "listeners": listeners,
        "advertised.listeners": plan_listener(plan),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(plan.data),
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        # A dead broker is noticed in 3 s instead of 9: with these four the stall after a kill -9
        # is 4-5 s instead of 8-11 (measured).
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "controller.quorum.election.timeout.ms": "500",
        "controller.quorum.fetch.timeout.ms": "1000",
        "log.cleaner.dedupe.buffer.size": "8388608",  # 128 MB by default, taken from the heap
        **plan.options,
    }


def plan_listener(plan: BrokerPlan) -> str:
    """Return the listener that clients are told to use."""
    return f"PLAINTEXT://{plan.bootstrap}"
