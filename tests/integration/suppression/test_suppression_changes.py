"""Topics' policies change and change back: what was published meanwhile is not forgotten.

All changes are made at once, each to a topic of its own. Each test ends with proof that suppression
works again: it cannot pass by suppressing nothing.
"""

import time
from collections.abc import Callable, Sequence

import pytest

from support.gateway.policy_changes import CHANGES, A, B, Policies, Side
from support.process.stack import Gateway, RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]
BESIDE = ["off", "canonical", "key-same-text", "key-of-document", "ignore"]
ALTERNATE_S, ROUNDS = 2.0, 10
StartSide = Callable[..., Side]


@pytest.fixture
def start_side(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> StartSide:
    """A factory of gateways with a topic for each of these changes."""
    created: set[str] = set()

    def start(changes: Sequence[str], *, other: bool = False) -> Side:
        policies = Policies(kafka.bootstrap, redis_server.url, topic_name, changes)
        for name in set(policies.names()) - created:
            created.add(kafka.create_topic(name, 1))
        return Side(start_gateway, policies, other=other)

    return start


async def test_comparison_that_changes_and_changes_back_publishes_again(
    start_side: StartSide,
) -> None:
    side = start_side(list(CHANGES))
    await side.suppress(A)
    await side.change(other=True)
    for name in CHANGES:
        assert (name, side.post(name, B)) == (name, "published")
    await side.change(other=False)
    for name in CHANGES:
        again = side.answer(name, A)
        assert again["outcome"] == "published", f"{name}: the newest is B, and A was {again}"
    await side.suppress(A)


async def test_two_gateways_of_different_policies(start_side: StartSide) -> None:
    one, other = start_side(BESIDE), start_side(BESIDE, other=True)
    end, rounds = time.monotonic() + ALTERNATE_S, 0
    while time.monotonic() < end or rounds < ROUNDS:
        rounds += 1
        for side, body in ((one, A), (other, B)):
            for name in BESIDE:
                outcome = side.post(name, body)
                assert outcome == "published", f"{name}, round {rounds}: {body!r} is not the newest"
    await other.change(other=False)
    await one.suppress(A)
    await other.suppress(A)
    for name in BESIDE:
        assert (name, other.post(name, B)) == (name, "published")
        assert (name, one.post(name, A)) == (name, "published")


async def test_restart_with_the_old_file(start_side: StartSide) -> None:
    late, other = start_side(BESIDE), start_side(BESIDE)
    await late.suppress(A)
    await late.change(other=True)
    await other.change(other=True)
    for name in BESIDE:
        assert (name, other.post(name, B)) == (name, "published")
    late.restart(other=False)
    for side, body in ((late, A), (other, B), (late, A)):
        for name in BESIDE:
            outcome = side.post(name, body)
            assert outcome == "published", f"{name}: {body!r} is not the newest record"
    await other.change(other=False)
    await late.suppress(A)
    await other.suppress(A)
