"""A million different keys: what of them stays in the gateway?"""

from collections.abc import Callable
from typing import NamedTuple

from cases.moments import Moment, Watched, idle, posted
from plan import Plan
from targets import Stand, Target

EVENTS = 1_000_000
PATIENCE_S = 900.0
GROWTH_GOAL = 2 * 2**20
ROUND = 100_000_000  # counters, and with them keys, of different rounds never overlap


class Keys(NamedTuple):
    """The memory of each process before and after, on one topic."""

    title: str
    moments: list[Moment]


def measure(stand: Stand, events: int, say: Callable[[str], None]) -> list[Keys]:
    """On each topic first 1,000 keys as often as there will be events, so that only keys differ."""
    watched = Watched.of(stand.gateway.pid)
    found = []
    for title, target in (("suppressed", stand.gateway), ("not suppressed", stand.plain)):
        usual = plan(stand, target, events)
        works = (
            (f"{events:,} events of 1,000 keys", usual),
            (f"{events:,} events, each of a new key", usual.with_(keys="new", first=ROUND)),
            ("the same again, other keys", usual.with_(keys="new", first=2 * ROUND)),
        )
        moments = [watched.moment("before", lambda: idle(1.0))]
        for step, work in works:
            moments.append(watched.moment(step, lambda work=work: posted(work)))
            say(f"{title}, {step}: worker {moments[-1].worker.memory.rss / 2**20:.1f} MiB")
        found.append(Keys(title, moments))
    return found


def plan(stand: Stand, target: Target, events: int) -> Plan:
    return Plan(
        url=target.batch_url,
        encoding="ndjson",
        connections=16,
        warm_up_s=0.0,
        seconds=PATIENCE_S,
        events=events,
        first=1,
        watch=(f"target={target.pid}",),
        bootstrap=stand.bootstrap,
        topic=target.topic,
    )
