"""Tokens, roles, quotas and the in-flight budget, against a real gateway."""

import hashlib
import json
import re
from collections.abc import Callable

import pytest

from support.clients.http_client import (
    JSON,
    Connection,
    events_path,
    exchange,
    figure,
    post,
    request_bytes,
)
from support.gateway.bad_input_world import assert_problem, reason
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

EVENT = b'{"id":1}'
KEYED = {**JSON, "Headgate-Key": "k"}
OPAQUE = {"Content-Type": "text/plain", "Headgate-Key": "k"}


TOKENS = """
[admission]
in_flight_max_bytes = 100000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 250
[auth]
mode = "token"
[producers.shop]
token_sha256 = ["{shop}"]
topics = ["{topic}"]
[producers.slow]
token_sha256 = ["{slow}"]
topics = ["{topic}"]
quota_events_per_s = 5
[producers.viewer]
token_sha256 = ["{viewer}"]
roles = ["view"]
topics = ["{topic}"]
[producers.operator]
token_sha256 = ["{operator}"]
roles = ["produce", "view", "operate"]
topics = ["nothing"]
[topics."{topic}"]
key = ["/id"]
"""


@pytest.fixture
def guarded(
    kafka: RunningBroker, topic_name: str, start_gateway: Callable[..., Gateway]
) -> Gateway:
    kafka.create_topic(topic_name, 1)
    names = ("shop", "slow", "viewer", "operator")
    hashes = {name: hashlib.sha256(f"{name}-token-of-tests".encode()).hexdigest() for name in names}
    return start_gateway(TOKENS.format(bootstrap=kafka.bootstrap, topic=topic_name, **hashes))


def bearer(token: str) -> dict[str, str | bytes]:
    return {**JSON, "Authorization": f"Bearer {token}"}


async def test_tokens_roles_quotas_and_budgets(
    guarded: Gateway, kafka: RunningBroker, topic_name: str
) -> None:
    port, written = guarded.port, list[bytes]()
    no_one(port, topic_name)
    allowed_and_forbidden(guarded, topic_name, written)
    quota(port, topic_name, written)
    await budget(guarded, topic_name, written)
    records = read_log(kafka.bootstrap, topic_name)
    assert [one.value for one in records] == written
    assert {one.header("hg-producer") for one in records} == {b"shop", b"slow"}


def no_one(port: int, topic: str) -> None:
    for headers in (
        JSON,
        {**JSON, "Headgate-Producer": "shop"},
        {**JSON, "Authorization": "shop"},
        {**JSON, "Authorization": "Basic c2hvcA=="},
        bearer("wrong"),
        bearer(""),
        bearer(hashlib.sha256(b"shop-token-of-tests").hexdigest()),
        {**JSON, "Authorization": b"Bearer \xff\xfe"},
    ):
        answer = post(port, topic, EVENT, headers)
        assert reason(answer) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert_problem(answer)
    # The name of a topic is not for strangers: known or not, the answer is the same.
    assert reason(post(port, "no-such-topic", EVENT)) == (401, "unauthenticated")


def allowed_and_forbidden(gateway: Gateway, topic: str, written: list[bytes]) -> None:
    port, management = gateway.port, gateway.management_port
    for token in ("viewer", "operator"):
        answer = post(port, topic, EVENT, bearer(f"{token}-token-of-tests"))
        assert reason(answer) == (403, "forbidden")
        assert_problem(answer)
    assert reason(post(port, "elsewhere", EVENT, bearer("shop-token-of-tests"))) == (
        403,
        "forbidden",
    )
    named = {**bearer("shop-token-of-tests"), "Headgate-Producer": "operator"}
    assert post(port, topic, EVENT, named).status == 201
    written.append(EVENT)
    path = "/v1/producers"
    assert exchange(management, "GET", path).status == 401
    assert exchange(management, "GET", path, bearer("shop-token-of-tests")).status == 403
    assert exchange(management, "GET", path, bearer("viewer-token-of-tests")).status == 200
    forget = f"/v1/suppression/{topic}"
    assert exchange(management, "DELETE", forget, bearer("viewer-token-of-tests")).status == 403
    assert exchange(management, "DELETE", forget, bearer("operator-token-of-tests")).status != 403


def quota(port: int, topic: str, written: list[bytes]) -> None:
    answers = []
    while not answers or answers[-1].status == 201:
        body = b'{"id":2,"n":%d}' % len(answers)
        answers.append(post(port, topic, body, bearer("slow-token-of-tests")))
        if answers[-1].status == 201:
            written.append(body)
            assert answers[-1].headers["ratelimit-policy"] == '"events";q=5;w=1'
        assert len(answers) < 2000
    refused = answers[-1]
    assert reason(refused) == (429, "quota_exceeded")
    assert_problem(refused)
    assert refused.document["retryable"] is True
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.headers["ratelimit-policy"] == '"events";q=5;w=1'
    assert re.fullmatch(r'"events";r=\d+;t=\d+', refused.headers["ratelimit"])
    assert post(port, topic, EVENT, bearer("shop-token-of-tests")).status == 201, (
        "others are not slowed down"
    )
    written.append(EVENT)


async def budget(gateway: Gateway, topic: str, written: list[bytes]) -> None:
    """A body that does not come fills the budget; the next one is refused before it is read."""
    port = gateway.port
    with Connection(port) as slow, Connection(port) as second:
        slow.send(
            request_bytes(
                "POST", events_path(topic), bearer("shop-token-of-tests"), b"{", length="99999"
            )
        )
        await eventually(lambda: in_flight_bytes(gateway) == 99_999)
        started = request_bytes(
            "POST", events_path(topic), bearer("shop-token-of-tests"), b"", length="5000"
        )
        second.send(started)
        answer = second.answer()
        assert reason(answer) == (503, "overloaded")
        assert_problem(answer)
        assert answer.headers["retry-after"] == "1"
        assert answer.document["limit"] == "in_flight_max_bytes"
        slow.send(b'"id":3' + b" " * (99_999 - 8) + b"}")
        assert slow.answer().status == 201
        written.append(b'{"id":3' + b" " * (99_999 - 8) + b"}")
    body = json.dumps({"id": 4, "text": "x" * 5000}).encode()
    assert post(port, topic, body, bearer("shop-token-of-tests")).status == 201, (
        "and it is free again"
    )
    written.append(body)


def in_flight_bytes(gateway: Gateway) -> float | None:
    return figure(
        gateway.management_port, "headgate_in_flight_bytes", bearer("viewer-token-of-tests")
    )
