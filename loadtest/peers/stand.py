"""The gateway and its peers, each a process and a topic of its own, on one broker."""

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from headgate.devstack.child import Child
from headgate.devstack.ports import LOOPBACK, accepts, free_port
from orders import KEY_POINTER
from peers.builds import HERE, built
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


@contextmanager
def peer_stand(
    directory: Path,
    names: Collection[str],
    arguments: tuple[str, ...],
    say: Callable[[str], None],
) -> Iterator[PeerStand]:
    """Builds what must be built, starts all, waits until each listens, ends all."""
    binaries = {name: built(name, say) for name in ("rust", "pixy") if name in names}
    present = [name for name in PEERS if name in names and binaries.get(name, sys.executable)]
    with ExitStack() as ending:
        say(f"starting Kafka, Redis, {', '.join(present)}")
        broker, redis = new_broker(directory, ending), new_redis(directory, ending)
        topics = {name: topic_of(name) for name in present}
        for topic in topics.values():
            broker.create_topic(topic, PARTITIONS, TOPIC_SETTINGS)
        targets: dict[str, Target] = {}
        if gateways := [name for name in present if name in (SUPPRESSING, PLAIN)]:
            config = filled(HERE / "headgate.toml", broker, redis)
            served = start_gateway(directory, config, arguments, ending)
            targets = {name: gateway_target(served, topics[name], name) for name in gateways}
            if SUPPRESSING in gateways:
                until_suppressing(served.port, topics[SUPPRESSING], PROBE)
        for name in present:
            topic = topics[name]
            if name in ("aiokafka", "librdkafka"):
                yardstick = start_yardstick(
                    directory, broker.bootstrap, topic, ending, name, KEY_POINTER
                )
                targets[name] = yardstick._replace(name=name)
            elif binary := binaries.get(name):
                start = {"rust": start_rust, "pixy": start_pixy}[name]
                targets[name] = start(binary, broker.bootstrap, topic, directory, ending)
        watch = (f"redis={redis.pid}", f"kafka={broker.pid}")
        yield PeerStand(broker.bootstrap, watch, tuple(targets[name] for name in present))


def topic_of(name: str) -> str:
    return f"peers-{name.removeprefix('headgate-')}"


def start_rust(
    binary: Path, bootstrap: str, topic: str, directory: Path, ending: ExitStack
) -> Target:
    port = free_port()
    command = [str(binary), bootstrap, topic, KEY_POINTER, str(port)]
    return start_handler("rust", command, topic, port, directory, ending)


def start_pixy(
    binary: Path, bootstrap: str, topic: str, directory: Path, ending: ExitStack
) -> Target:
    """It takes keys from the query, not from documents, and knows no batches."""
    port = free_port()
    grpc_port = free_port({port})
    command = [str(binary), "-config", str(HERE / "pixy" / "pixy.yaml")]
    command += ["-kafkaPeers", bootstrap, "-tcpAddr", f"{LOOPBACK}:{port}"]
    command += ["-grpcAddr", f"{LOOPBACK}:{grpc_port}"]
    child = Child("pixy", command, directory / f"{topic}.log")
    ending.callback(child.kill)
    child.wait_until(lambda: accepts(port), START_S)
    url = f"http://{LOOPBACK}:{port}/topics/{topic}/messages?sync&key={{key}}"
    return Target("pixy", topic, url, "", child.pid)
