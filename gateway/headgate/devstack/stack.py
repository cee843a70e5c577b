"""The whole local stack of `headgate dev`: two Kafka tiers, Redis and the gateway."""

import asyncio
import json
import signal
import ssl
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from aiokafka.errors import KafkaError

from headgate.config import load
from headgate.config.problems import toml_text
from headgate.devstack.child import IDLE_S, Child, Ledger, StartError
from headgate.devstack.ports import LOOPBACK, accepts, free_port
from headgate.devstack.servers import (
    STOP_GRACE_S,
    BrokerPlan,
    JmxAgent,
    KafkaInstallation,
    RedisPlan,
    answers_ping,
    brokers_in_metadata,
    single_node,
    start_node,
    start_redis,
)
from headgate.errors_in_words import connection_error
from headgate.kafka.access import ClusterAccess
from headgate.kafka.access import create_topics as create_on_cluster
from headgate.kafka.aiokafka_internals import drop_admin, open_admin
from headgate.model.internal_topics import InternalTopic
from headgate.model.policy import INTERNAL_PREFIXES
from headgate.model.topics import is_glob

_STILL_S = 10.0  # between two lines about a wait
_PAUSE_S = 1.0
GATEWAY_GRACE_S = 30.0  # above the default drain_timeout_ms
OPERATIONS_GRACE_S = 10.0
REDIS_GRACE_S = 5.0
LONGEST_QUARANTINE_S = 5.0  # longest wait of a start; longer ones are for tests
OPENING_S = 0.25  # from "ready" until Redis knows every namespace: one call

# Processes that operators run beside gateways, with their commands without `--config F`.
OPERATIONS = {
    "monitor": ("headgate", "monitor"),
    "mirror": ("headgate_spark", "mirror", "--follow"),
    "replays": ("headgate_spark", "replay", "--follow"),
}
PROGRAMS = {"gateway": ("headgate", "serve"), **OPERATIONS}
_SPARK_NEEDS = ("pyspark", "pandas", "pyarrow")


class Ports(NamedTuple):
    """Ports of all servers."""

    gateway: int
    management: int
    ingest: int
    backfill: int
    redis: int
    monitor: int = 9096


Table = Mapping[str, Any]
_SAMPLE = Path(__file__).with_name("sample.toml")
_PARTITIONS = {"deals": 12}
_DEFAULT_PARTITIONS = 6


# Ports that the user's configuration may choose, with the option of each.
CHOSEN_PORTS = {
    "gateway": ("http", "port"),
    "management": ("http", "management_port"),
    "monitor": ("monitor", "port"),
}
# Options of the user's configuration that are replaced: these servers are started here.
_OWN_SERVERS = (
    ("redis", "url"),
    ("redis", "urls"),
    ("clusters", "main", "bootstrap_servers"),
    ("clusters", "main-backfill", "bootstrap_servers"),
    ("http", "host"),
    ("monitor", "host"),
)


class DevStack:
    """The child processes of a stack; `state` keeps data, logs and the effective configuration."""

    def __init__(
        self,
        installation: KafkaInstallation,
        state: Path,
        ports: Ports,
        agent: JmxAgent | None = None,
    ) -> None:
        self.state = state
        self.ports = ports
        self.installation = installation
        self._agent = agent  # agent of the brokers, for their metrics
        self._jmx_ports: dict[str, int] = {}
        if agent is not None:
            first = free_port(ports)
            self._jmx_ports = {"ingest": first, "backfill": free_port({*ports, first})}
        self.ledger = Ledger(state / "children.json")
        self.children: dict[str, Child] = {}
        self.ingest = single_node(state / "ingest", ports.ingest)
        self.backfill = single_node(state / "backfill", ports.backfill)
        self.redis = RedisPlan(state / "redis", ports.redis)
        self.config: Table = {}

    @property
    def config_file(self) -> Path:
        """Return the file of the effective configuration."""
        return self.state / "headgate.toml"

    @property
    def gateway_url(self) -> str:
        """Return the URL of the data plane."""
        return f"{self._scheme}://{LOOPBACK}:{self.ports.gateway}"

    @property
    def management_url(self) -> str:
        """Return the URL of metrics and the control plane."""
        return f"{self._scheme}://{LOOPBACK}:{self.ports.management}"

    @property
    def _scheme(self) -> str:
        """Return https if the user's configuration has a certificate, else http."""
        return "http" if option_of(self.config, ("http", "tls_cert_file")) is None else "https"

    def write_config(
        self, overlay: Table, environment: Mapping[str, str], say: Callable[[str], None]
    ) -> None:
        """Write the effective configuration. Raises ConfigError before anything is started."""
        for path in _OWN_SERVERS:
            if option_of(overlay, path) is not None:
                say(f"{'.'.join(path)} is not used: `headgate dev` starts its own servers")
        blobs = {"blobs": {"url": f"file://{self.state.resolve() / 'blobs'}"}}
        self.config = effective_config(merge(blobs, overlay), self._addresses())
        self.config_file.write_text(to_toml(self.config))
        load(self.config_file, environment)

    def start_backends(self, say: Callable[[str], None]) -> None:
        """Start brokers and Redis together and wait for them. Raises StartError."""
        addresses = {
            "redis": self.redis.url,
            "ingest": self.ingest.bootstrap,
            "backfill": self.backfill.bootstrap,
        }
        for name in addresses:
            self.spawn(name)
        for name, address in addresses.items():
            self._wait_for(name, say)
            say(f"  {name:<9} {address}")

    def spawn(self, name: str) -> Child:
        """Start a process, or start it again on its data and ports. Does not wait."""
        grace_s = 0.0
        if name == "redis":
            child, grace_s = start_redis(self.redis), REDIS_GRACE_S
        elif name in ("ingest", "backfill"):
            plan = self.ingest if name == "ingest" else self.backfill
            child = start_node(self.installation, plan, *self._jvm_flags(name, plan))
            grace_s = STOP_GRACE_S
        else:
            package, command, *more = PROGRAMS[name]
            words = [sys.executable, "-m", package, command, "--config", str(self.config_file)]
            # No grace for leftovers: a gateway must not publish beside its successor.
            child = Child(name, [*words, *more], self.state / f"{name}.log")
        self.children[name] = child
        self.ledger.add(child.name, child.pid, grace_s)
        return child

    def is_ready(self, name: str) -> bool:
        """Ask a process whether it serves; those without a port always do."""
        match name:
            case "redis":
                return answers_ping(self.redis.port)
            case "ingest":
                return brokers_in_metadata(self.ingest.port) > 0
            case "backfill":
                return brokers_in_metadata(self.backfill.port) > 0
            case "gateway":
                return _is_ready(self.gateway_url)
            case "monitor":
                return accepts(self.ports.monitor)
        return True

    def _wait_for(self, name: str, say: Callable[[str], None]) -> None:
        self.children[name].wait_until(lambda: self.is_ready(name), say=say, idle_s=IDLE_S)

    def _jvm_flags(self, name: str, plan: BrokerPlan) -> list[str]:
        if self._agent is None:
            return []
        return [self._agent.flag(plan.directory, self._jmx_ports[name])]

    def create_topics(self, say: Callable[[str], None]) -> list[str]:
        """Create the topics of the configuration that are missing; return their names.

        This includes the topics of held events. Raises StartError.
        """
        topics = topics_to_create(self.config)
        created = create_topics(self.ingest.bootstrap, topics, self.children["ingest"], say)
        if any("coalesce_quiet_ms" in policy for policy in self.config["topics"].values()):
            created += create_internal(self.config_file, say)
        return created

    def start_gateway(self, say: Callable[[str], None]) -> None:
        """Start `headgate serve` and wait until it is ready and suppresses. Raises StartError."""
        self.spawn("gateway")
        self._wait_for("gateway", say)
        # Redis is new, so quarantine has just begun for every topic. The start skips a long one.
        quarantine_s = self.config["redis"]["quarantine_ms"] / 1000
        if quarantine_s <= LONGEST_QUARANTINE_S:
            time.sleep(quarantine_s + OPENING_S)

    def start_operations(self) -> list[str]:
        """Start those of `OPERATIONS` that can run, without a wait, and return their names."""
        started = [
            name
            for name, (package, *_) in OPERATIONS.items()
            if package == "headgate" or all(map(find_spec, _SPARK_NEEDS))
        ]
        for name in started:
            self.spawn(name)
        return started

    def stop(self) -> None:
        """End all children, those that use others first, so that they can hand over."""
        grace = {"gateway": GATEWAY_GRACE_S, "redis": REDIS_GRACE_S}
        grace |= dict.fromkeys(OPERATIONS, OPERATIONS_GRACE_S)
        with _signals_ignored():
            for name in (*OPERATIONS, "gateway", "redis", "ingest", "backfill"):
                if name in self.children:
                    self.children.pop(name).stop(grace.get(name, STOP_GRACE_S))
            self.ledger.clear()

    def _address(self, name: str, plan: BrokerPlan) -> dict[str, Any]:
        port = self._jmx_ports.get(name)
        metrics = {} if port is None else {"metrics_urls": [f"http://{LOOPBACK}:{port}/metrics"]}
        return {"bootstrap_servers": [plan.bootstrap], **metrics}

    def _addresses(self) -> dict[str, Any]:
        return {
            "http": {
                "host": LOOPBACK,
                "port": self.ports.gateway,
                "management_port": self.ports.management,
            },
            "clusters": {
                "main": self._address("ingest", self.ingest),
                "main-backfill": self._address("backfill", self.backfill),
            },
            "redis": {"url": self.redis.url},
            "monitor": {"port": self.ports.monitor},
        }


def create_topics(
    bootstrap: str, topics: Sequence[InternalTopic], broker: Child, say: Callable[[str], None]
) -> list[str]:
    """Create the topics that do not exist yet, and try again while the broker is too busy.

    Args:
        bootstrap: The broker's address.
        topics: The topics to create.
        broker: The broker's process.
        say: Takes a line for each attempt that failed.

    Returns:
        The names of the created topics.

    Raises:
        StartError: The broker has ended, or refuses a topic.
    """
    while True:
        try:
            return asyncio.run(create_missing(bootstrap, topics))
        except (KafkaError, TimeoutError, OSError) as error:
            is_final = isinstance(error, KafkaError) and not error.retriable
            if is_final or broker.exit_code is not None:
                text = f"the topics cannot be created: {connection_error(error)}"
                raise StartError(f"{text}\n{broker.log_tail()}") from error
            say(f"  waiting for {broker.name} to create topics: {connection_error(error)}")
            time.sleep(_PAUSE_S)


async def create_missing(bootstrap: str, topics: Sequence[InternalTopic]) -> list[str]:
    """Create the topics that do not exist yet; return their names. Raises KafkaError."""
    admin = open_admin(ClusterAccess(bootstrap))
    await admin.start()
    try:
        present = set(await admin.list_topics())
        missing = [topic for topic in topics if topic.name not in present]
        await create_on_cluster(admin, missing)
        return [topic.name for topic in missing]
    finally:
        await drop_admin(admin)


def create_internal(config: Path, say: Callable[[str], None]) -> list[str]:
    """Run `headgate init`; return the names of the created topics. Raises StartError.

    Its findings are shown, and do not stop the start: a topic of the user's own sections may not
    exist yet.
    """
    command = [sys.executable, "-m", "headgate", "init", "--config", str(config)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    ) as done:
        start = time.monotonic()
        while True:  # it ends by itself: each of its requests has a deadline
            try:
                shown, errors = done.communicate(timeout=_STILL_S)
                break
            except subprocess.TimeoutExpired:
                say(f"  waiting for headgate init ({time.monotonic() - start:.0f} s)")
            except BaseException:
                done.kill()
                raise
    created = []
    for line in shown.splitlines():
        word, _, rest = line.partition(" ")
        name = rest.strip().partition(":")[0]
        if word == "created":
            created.append(name)
        elif word != "ok":
            say(f"  headgate init: {line}")
    if done.returncode and not shown:
        raise StartError(f"`headgate init` failed:\n{errors}")
    return created


def option_of(config: Table, path: Sequence[str]) -> object:
    """Return the value of an option in a table of tables, None if it is missing."""
    value: Any = config
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


@contextmanager
def _signals_ignored() -> Iterator[None]:
    # A second Ctrl-C must not leave half of the children running; each stop has its deadline.
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _is_ready(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme == "https":  # our own child on loopback: its certificate has other names
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection: HTTPConnection = HTTPSConnection(parts.netloc, timeout=2.0, context=context)
    else:
        connection = HTTPConnection(parts.netloc, timeout=2.0)
    try:
        connection.request("GET", "/ready")
        answer = connection.getresponse()
        # Without Redis it is "degraded", and ready all the same.
        return answer.status == 200 and json.loads(answer.read())["status"] == "ready"
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


# ---- the effective configuration: sample, the user's sections, then addresses


def effective_config(overlay: Table, addresses: Table) -> dict[str, Any]:
    """Lay `overlay` over the sample, and `addresses` over both: children cannot be elsewhere."""
    return merge(merge(tomllib.loads(_SAMPLE.read_text()), overlay), addresses)


def merge(under: Table, over: Table) -> dict[str, Any]:
    """Merge tables section by section; every other value of `over` replaces that of `under`."""
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        both_tables = isinstance(value, dict) and isinstance(below, dict)
        merged[name] = merge(below, value) if both_tables else value  # type: ignore[arg-type]
    return merged


def topics_to_create(config: Table) -> list[InternalTopic]:
    """Return the topics that the configuration names on the ingest cluster: no globs."""
    return [
        InternalTopic(
            name, "main", _PARTITIONS.get(name, _DEFAULT_PARTITIONS), 1, _topic_configs(policy)
        )
        for name, policy in config.get("topics", {}).items()
        if not is_glob(name)
        and not name.startswith(INTERNAL_PREFIXES)
        and policy.get("cluster", "main") == "main"
    ]


def _topic_configs(policy: Table) -> dict[str, str]:
    # A state topic needs one record per key, as compaction keeps it.
    return {"cleanup.policy": "compact" if policy.get("kind") == "state" else "delete"}


def to_toml(config: Table) -> str:
    """Write a configuration as TOML, each table under its own heading."""
    return "\n".join(_tables((), config)).lstrip() + "\n"


def _tables(path: tuple[str, ...], table: Table) -> list[str]:
    values = {name: value for name, value in table.items() if not isinstance(value, dict)}
    lines = [f"{_key(name)} = {toml_text(value)}" for name, value in values.items()]
    if path and (lines or not table):
        lines.insert(0, f"\n[{'.'.join(_key(part) for part in path)}]")
    for name, value in table.items():
        if isinstance(value, dict):
            lines += _tables((*path, name), value)
    return lines


def _key(name: str) -> str:
    bare = name.replace("-", "").replace("_", "")
    return name if bare.isalnum() and bare.isascii() else str(toml_text(name))
