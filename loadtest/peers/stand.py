"""The gateway and its peers, each a process and a topic of its own, on one broker."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from headgate.devstack.child import Child
from headgate.devstack.ports import LOOPBACK, accepts, free_port
from orders import KEY_POINTER
from peers.builds import BUILDS, HERE, built
from targets import (
    PARTITIONS,
    START_S,
    TOPIC_SETTINGS,
    Target,
    filled,
    gateway_target,
    new_broker,
    new_redis,
    start_gateway,
    start_handler,
    start_yardstick,
    until_suppressing,
)

# isort: split
from support.process.stack import RunningBroker, RunningRedis

SUPPRESSING, PLAIN = "headgate-on", "headgate-off"
# In the order of a round. A peer that is missing here is left out of the table.
PEERS = {
    SUPPRESSING: "Headgate, suppression on",
    PLAIN: "Headgate, suppression off",
    "aiokafka": "aiohttp + aiokafka",
    "librdkafka": "aiohttp + librdkafka",
    "rust": "Rust: axum + librdkafka",
    "pixy": "kafka-pixy",
}
PROBE = b'{"customer":{"ref":"probe"}}'


class PeerStand(NamedTuple):
    """What runs during a measurement. `watch` is what costs beside the target."""

    bootstrap: str
    watch: tuple[str, ...]
    targets: tuple[Target, ...]


class Place(NamedTuple):
    """What a handler publishes to, where its log is, and who ends it."""

    bootstrap: str
    topic: str
    directory: Path
    ending: ExitStack


@contextmanager
def peer_stand(
    directory: Path,
    names: Collection[str],
    arguments: tuple[str, ...],
    say: Callable[[str], None],
) -> Iterator[PeerStand]:
    """Builds what must be built, starts all, waits until each listens, ends all."""
    found = {name: built(name, say) for name in BUILDS if name in names}
    binaries = {name: binary for name, binary in found.items() if binary is not None}
    present = [one for one in PEERS if one in names and (one not in BUILDS or one in binaries)]
    with ExitStack() as ending:
        say(f"starting Kafka, Redis, {', '.join(present)}")
        broker, redis = new_broker(directory, ending), new_redis(directory, ending)
        yield start_peers(present, broker, redis, binaries, arguments, directory, ending)


def start_peers(
    names: Collection[str],
    broker: RunningBroker,
    redis: RunningRedis,
    binaries: Mapping[str, Path],
    arguments: tuple[str, ...],
    directory: Path,
    ending: ExitStack,
) -> PeerStand:
    """One gateway for both of its topics, and each of the others on its own."""
    for name in names:
        broker.create_topic(topic_of(name), PARTITIONS, TOPIC_SETTINGS)
    targets: dict[str, Target] = {}
    if gateways := [name for name in names if name in (SUPPRESSING, PLAIN)]:
        config = filled(HERE / "headgate.toml", broker, redis)
        served = start_gateway(directory, config, arguments, ending)
        targets = {name: gateway_target(served, topic_of(name), name) for name in gateways}
        if SUPPRESSING in gateways:
            until_suppressing(served.port, topic_of(SUPPRESSING), PROBE)
    for name in names:
        at = Place(broker.bootstrap, topic_of(name), directory, ending)
        if name in ("aiokafka", "librdkafka"):
            targets[name] = start_yardstick(*at, name, KEY_POINTER)._replace(name=name)
        elif name == "rust":
            targets[name] = start_rust(binaries[name], at)
        elif name == "pixy":
            targets[name] = start_pixy(binaries[name], at)
    watch = (f"redis={redis.pid}", f"kafka={broker.pid}")
    return PeerStand(broker.bootstrap, watch, tuple(targets[name] for name in names))


def topic_of(name: str) -> str:
    return f"peers-{name.removeprefix('headgate-')}"


def start_rust(binary: Path, at: Place) -> Target:
    port = free_port()
    command = [str(binary), at.bootstrap, at.topic, KEY_POINTER, str(port)]
    return start_handler("rust", command, at.topic, port, at.directory, at.ending)


def start_pixy(binary: Path, at: Place) -> Target:
    """It takes keys from the query, not from documents, and knows no batches."""
    port = free_port()
    grpc_port = free_port({port})
    command = [str(binary), "-config", str(HERE / "pixy" / "pixy.yaml")]
    command += ["-kafkaPeers", at.bootstrap, "-tcpAddr", f"{LOOPBACK}:{port}"]
    command += ["-grpcAddr", f"{LOOPBACK}:{grpc_port}"]
    child = Child("pixy", command, at.directory / f"{at.topic}.log")
    at.ending.callback(child.kill)
    child.wait_until(lambda: accepts(port), START_S)
    url = f"http://{LOOPBACK}:{port}/topics/{at.topic}/messages?sync&key={{key}}"
    return Target("pixy", at.topic, url, "", child.pid)
