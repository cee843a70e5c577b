"""What breaks under clients while they send, and the gateway that they send to."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple, Protocol

from support.process.stack import Gateway, RunningBroker, RunningRedis

GATEWAY = """
[http]
request_timeout_ms = 5000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 5000
lane_stall_ms = 5000
[redis]
url = "{redis}"
claim_ms = 3000
timeout_ms = 1000
"""
CONFIG = f"""
{GATEWAY}
[topics."{{topic}}"]
key = ["/id"]
dedupe_ttl_s = 3600
"""
BETWEEN = 200  # events that end between two blows
DEADLINE_S = 200.0


class Progress(Protocol):
    """What is known of the senders while they send."""

    @property
    def ended_events(self) -> int:
        """How many have ended."""

    @property
    def failed_events(self) -> int:
        """How many times one did not end well in a request."""


class World(NamedTuple):
    """What can break."""

    progress: Progress
    gateways: list[Gateway]
    kafka: RunningBroker
    redis: RunningRedis


Fault = Callable[[World], None]


def start_all(
    start: Callable[..., Gateway], text: str, count: int, **environment: str
) -> list[Gateway]:
    """That many gateways, side by side."""
    started = [start(text, wait=False, environment=environment) for _ in range(count)]
    for one in started:
        one.wait()
    return started


def break_in_turn(world: World, faults: Iterable[Fault]) -> None:
    """Break one after the other; before and behind each, events get through."""
    _wait_for_more(world.progress)
    for fault in faults:
        fault(world)
        _wait_for_more(world.progress)


def kill(world: World) -> None:
    """kill -9 of all processes of a gateway, and start it again."""
    gateway = world.gateways[0]
    for pid in gateway.pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    gateway.kill()
    gateway.restart()


def drain(world: World) -> None:
    """SIGTERM to one gateway after the other; each comes back before the next one goes."""
    for gateway in world.gateways:
        gateway.restart()


def pause_kafka(world: World) -> None:
    """Kafka stands still until requests fail, then goes on."""
    before = world.progress.failed_events
    world.kafka.pause()
    _wait_until(lambda: world.progress.failed_events > before, "a request fails")
    world.kafka.resume()
    world.kafka.wait()


def kill_kafka(world: World) -> None:
    """kill -9 of the broker; it comes back when requests fail."""
    before = world.progress.failed_events
    world.kafka.kill()
    _wait_until(lambda: world.progress.failed_events > before, "a request fails")
    world.kafka.restart()


def lose_redis(world: World) -> None:
    """Redis ends with everything it knew, and comes back empty."""
    world.redis.kill()
    world.redis.restart()


def forget(world: World) -> None:
    """A gateway dies, and Redis, which knew what was sent to it; both come back."""
    gateway = world.gateways[0]
    gateway.kill()
    lose_redis(world)
    gateway.restart()


def _wait_until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)


def _wait_for_more(progress: Progress) -> None:
    enough = progress.ended_events + BETWEEN
    _wait_until(lambda: progress.ended_events >= enough, f"{enough} events have ended")
