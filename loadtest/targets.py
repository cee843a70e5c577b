"""One broker, one Redis, the yardstick and the gateway, each a process of its own on loopback."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import orjson

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))  # stack.py starts real brokers for the tests too

from headgate.devstack.child import Child  # noqa: E402
from headgate.devstack.ports import LOOPBACK, accepts, free_port  # noqa: E402
from headgate.devstack.servers import (  # noqa: E402
    RedisPlan,
    prepare_kafka,
    single_node,
)
from support.process.stack import Gateway, RunningBroker, RunningRedis  # noqa: E402 - after the path

PARTITIONS = 6
# Load is written by the gigabyte: keep little of it (offsets go on counting what was written).
TOPIC_SETTINGS = {"retention.bytes": "67108864", "segment.bytes": "16777216"}
BROKER_SETTINGS = {"log.retention.check.interval.ms": "20000"}
YARDSTICK_TOPIC = "bench-yardstick"
GATEWAY_TOPIC = "bench-gateway"
LARGE_TOPIC = "bench-large"
PLAIN_TOPIC = "bench-plain"  # without suppression
TOPICS = (GATEWAY_TOPIC, LARGE_TOPIC, PLAIN_TOPIC)
START_S = 30.0


class Target(NamedTuple):
    """Something events are posted to."""

    name: str
    topic: str
    single_url: str
    batch_url: str
    pid: int


class Stand(NamedTuple):
    """Everything that runs during a measurement. `watch` is what costs beside the target."""

    bootstrap: str
    watch: tuple[str, ...]
    yardstick: Target
    gateway: Target
    large: Target
    plain: Target
    metrics_port: int
    broker: RunningBroker


@contextmanager
def stand(directory: Path, config: Path, arguments: tuple[str, ...], null: bool) -> Iterator[Stand]:
    """Starts all, waits until each answers, ends all. `null`: a second yardstick as the gateway."""
    with ExitStack() as ending:
        broker = started_broker(directory, ending)
        redis = new_redis(directory, ending)
        yardstick = start_yardstick(broker.bootstrap, YARDSTICK_TOPIC, directory, ending)
        if null:
            gateway, large, plain = (
                start_yardstick(broker.bootstrap, topic, directory, ending) for topic in TOPICS
            )
            metrics_port = 0
        else:
            text = filled(config, broker, redis)
            served = start_gateway(directory, text, arguments, ending)
            until_suppressing(served.port, GATEWAY_TOPIC)
            gateway, large, plain = (gateway_target(served, one) for one in TOPICS)
            metrics_port = served.management_port
        watch = (f"redis={redis.pid}", f"kafka={broker.pid}")
        yield Stand(broker.bootstrap, watch, yardstick, gateway, large, plain, metrics_port, broker)


def filled(config: Path, broker: RunningBroker, redis: RunningRedis) -> str:
    """The gateway's configuration with this run's addresses in it."""
    text = config.read_text().replace("BOOTSTRAP", broker.bootstrap)
    return text.replace("REDIS", redis.url)


def new_broker(directory: Path, ending: ExitStack) -> RunningBroker:
    installation = prepare_kafka(os.environ, say=lambda line: None)
    plan = single_node(directory / "kafka", free_port(), BROKER_SETTINGS)
    broker = RunningBroker(installation, plan)
    ending.callback(broker.kill)
    broker.wait()
    return broker


def new_redis(directory: Path, ending: ExitStack) -> RunningRedis:
    redis = RunningRedis(RedisPlan(directory / "redis", free_port()))
    ending.callback(redis.kill)
    return redis


def started_broker(directory: Path, ending: ExitStack) -> RunningBroker:
    broker = new_broker(directory, ending)
    for topic in (YARDSTICK_TOPIC, *TOPICS):
        broker.create_topic(topic, PARTITIONS, TOPIC_SETTINGS)
    return broker


def start_yardstick(
    bootstrap: str,
    topic: str,
    directory: Path,
    ending: ExitStack,
    client: str = "aiokafka",
    key: str = "/id",
) -> Target:
    port = free_port()
    command = [sys.executable, str(HERE / "yardstick.py"), "--bootstrap", bootstrap]
    command += ["--topic", topic, "--port", str(port), "--client", client, "--key", key]
    return start_handler("yardstick", command, topic, port, directory, ending)


def start_handler(
    name: str, command: list[str], topic: str, port: int, directory: Path, ending: ExitStack
) -> Target:
    """Starts a handler with the yardstick's two paths and waits until it listens."""
    child = Child(name, command, directory / f"{topic}.log")
    ending.callback(child.kill)
    child.wait_until(lambda: accepts(port), START_S)
    url = f"http://{LOOPBACK}:{port}"
    return Target(name, topic, f"{url}/events", f"{url}/batches", child.pid)


def start_gateway(
    directory: Path,
    config: str,
    arguments: tuple[str, ...],
    ending: ExitStack,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Gateway:
    served = Gateway(directory / "gateway", config, arguments, environment)
    ending.callback(served.stop)
    served.wait()
    return served


def gateway_target(gateway: Gateway, topic: str, name: str = "gateway") -> Target:
    url = f"{gateway.url}/v1/topics/{topic}/events"
    return Target(name, topic, url, url, gateway.pid)


def until_suppressing(port: int, topic: str, probe: bytes = b'{"id":"probe"}') -> None:
    """Waits until a repeated event is answered `unchanged`. Raises TimeoutError.

    Otherwise a gateway that never suppresses would be measured as one that does.
    """

    def unchanged() -> bool:
        return posted_outcome(port, topic, probe) == "unchanged"

    poll(unchanged, START_S, "no event ended unchanged")


def posted_outcome(port: int, topic: str, body: bytes) -> object:
    connection = HTTPConnection(LOOPBACK, port, timeout=5.0)
    try:
        head = {"Content-Type": "application/json"}
        connection.request("POST", f"/v1/topics/{topic}/events", body, head)
        document: dict[str, object] = orjson.loads(connection.getresponse().read())
        return document.get("outcome")
    except (OSError, HTTPException, orjson.JSONDecodeError):
        return None
    finally:
        connection.close()


def poll(ready: Callable[[], bool], deadline_s: float, failure: str) -> None:
    end = time.monotonic() + deadline_s
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{failure} within {deadline_s:.0f} s")
        time.sleep(0.1)


def scrape_stall_seconds(port: int) -> float | None:
    """The longest event loop stall since the last scrape, over all workers; None: not exposed."""
    connection = HTTPConnection(LOOPBACK, port, timeout=10.0)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    name = "headgate_event_loop_stall_seconds"
    found = [float(line.split()[-1]) for line in text.splitlines() if line.startswith(name)]
    return max(found, default=None)
