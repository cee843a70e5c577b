"""A topic's policy changes and changes back: what was published meanwhile is not forgotten.

Each test ends with proof that suppression works again: it cannot pass by suppressing nothing.
"""

import time
from collections.abc import Callable

import pytest

from policy_changes import CHANGES, A, B, Change, Side, config_text
from stack import Gateway, RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]
BESIDE = ["off", "canonical", "key-same-text", "key-of-document", "ignore"]
ALTERNATE_S, ROUNDS = 2.0, 10
StartSide = Callable[[str], Side]


@pytest.fixture
def change(request: pytest.FixtureRequest) -> Change:
    return CHANGES[request.param]


@pytest.fixture
def start_side(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    change: Change,
) -> StartSide:
    """A factory of gateways with one of the two policies."""
    kafka.create_topic(topic_name, 1)

    def start(policy: str) -> Side:
        def text_with(policy: str) -> str:
            return config_text(kafka.bootstrap, redis_server.url, topic_name, policy)

        return Side(start_gateway, text_with, topic_name, policy, change.headers)

    return start


@pytest.mark.parametrize("change", CHANGES, indirect=True)
async def test_there_and_back(start_side: StartSide, change: Change) -> None:
    side = start_side(change.one)
    await side.suppresses(A)
    await side.change(change.other)
    assert side.post(B) == "published"
    await side.change(change.one)
    again = side.answer(A)
    assert again["outcome"] == "published", f"the newest record is B, and A was answered {again}"
    await side.suppresses(A)


@pytest.mark.parametrize("change", BESIDE, indirect=True)
async def test_two_gateways_of_different_policies(start_side: StartSide, change: Change) -> None:
    one, other = start_side(change.one), start_side(change.other)
    end, rounds = time.monotonic() + ALTERNATE_S, 0
    while time.monotonic() < end or rounds < ROUNDS:
        rounds += 1
        for side, body in ((one, A), (other, B)):
            outcome = side.post(body)
            assert outcome == "published", f"round {rounds}: {body!r} is not the newest record"
    await other.change(change.one)
    await one.suppresses(A)
    await other.suppresses(A)
    assert other.post(B) == "published"
    assert one.post(A) == "published"


@pytest.mark.parametrize("change", BESIDE, indirect=True)
async def test_restart_with_the_old_file(start_side: StartSide, change: Change) -> None:
    late, other = start_side(change.one), start_side(change.one)
    await late.suppresses(A)
    await late.change(change.other)
    await other.change(change.other)
    assert other.post(B) == "published"
    late.restart(change.one)
    assert late.post(A) == "published", "the newest record is B"
    assert other.post(B) == "published"
    assert late.post(A) == "published", "the newest record is B"
    await other.change(change.one)
    await late.suppresses(A)
    await other.suppresses(A)
