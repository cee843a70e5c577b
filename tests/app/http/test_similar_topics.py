"""The answer for an unknown topic names a similar one that the caller may write to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import pytest

from headgate.config.settings import AuthSettings, ProducerSettings
from headgate.http.auth import Authenticator
from headgate.model.topics import SimilarTopics
from support.gateway.data_plane_world import DataPort, data_port

JSON = {"Content-Type": "application/json"}


def token(name: str) -> str:
    return f"{name}-token-of-tests"


def bearer(name: str) -> dict[str, str]:
    return {**JSON, "Authorization": f"Bearer {token(name)}"}


def callers(**topics: tuple[str, ...]) -> Authenticator:
    producers = {
        name: ProducerSettings((hashlib.sha256(token(name).encode()).hexdigest(),), globs)
        for name, globs in topics.items()
    }
    return Authenticator(AuthSettings(mode=("token",)), producers)


async def detail(
    port: DataPort, topic: str, headers: Mapping[str, str], path: str = "/v1/topics/{}/events",
    body: bytes = b'{"id": 1}',
) -> str:  # fmt: skip
    answer = await port.ask("POST", path.format(topic), headers, body)
    assert answer.status == 404, answer.body
    page = json.loads(answer.body)
    return str(page.get("detail") or page["message"])


@pytest.mark.parametrize(("typed", "meant"), [("order", "orders"), ("Orders", "orders"),
                                              ("ordres", "orders"), ("deal", "deals")])  # fmt: skip
async def test_a_misspelled_topic(typed: str, meant: str) -> None:
    async with data_port() as port:
        assert f'Did you mean "{meant}"?' in await detail(port, typed, JSON)
        repeated = {**JSON, "Idempotency-Key": "a-key"}
        assert f'Did you mean "{meant}"?' in await detail(port, typed, repeated)
        waiting = {**JSON, "Expect": "100-continue"}
        assert f'Did you mean "{meant}"?' in await detail(port, typed, waiting)


async def test_a_topic_like_no_other() -> None:
    async with data_port() as port:
        text = await detail(port, "xyzzy", JSON)
        assert "Did you mean" not in text
        assert text.endswith(". GET /topics lists the topics that you may write to")
        assert "xyzzy" not in (await port.ask("GET", "/topics")).body.decode()


async def test_the_paths_of_confluent_say_so_as_well() -> None:
    v2 = {"Content-Type": "application/vnd.kafka.json.v2+json"}
    async with data_port() as port:
        text = await detail(port, "order", v2, "/topics/{}", b'{"records": [{"value": 1}]}')
        assert 'Did you mean "orders"?' in text
        path = "/v3/clusters/c-1/topics/{}/records"
        text = await detail(port, "order", JSON, path, b'{"value": {"type": "JSON", "data": 1}}')
        assert 'Did you mean "orders"?' in text
        answer = await port.ask("GET", "/topics/order")
        assert 'Did you mean "orders"?' in json.loads(answer.body)["message"]


async def test_a_topic_that_the_caller_may_not_write_to_is_never_named() -> None:
    known = callers(shop=("order", "order.*"), crm=("order*",))
    async with data_port(callers=known) as port:
        assert "orders" not in await detail(port, "order", bearer("shop"))
        assert 'Did you mean "orders"?' in await detail(port, "order", bearer("crm"))
        answer = await port.post("deal", b"{}", bearer("crm"))
        assert answer.status == 403
        assert "deals" not in answer.body.decode()


def test_the_work_is_bounded() -> None:
    """However many names clients make up, and however many topics there are."""
    now, asked = 0.0, 0

    def served() -> list[str]:
        nonlocal asked
        asked += 1
        return [f"topic-{number:05}" for number in range(20_000)]

    similar = SimilarTopics(served, lambda: now)
    everything = {similar.find(f"topic-{number:05}x", lambda _: True) for number in range(1000)}
    assert None in everything
    assert asked == 1
    now = 60.0
    assert similar.find("topic-00007x", lambda _: True) is not None
    assert asked == 2
