"""A token is replaced: the control plane shows when its producer has stopped using the old one."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from support.clients.http_client import JSON, exchange, post
from support.process.stack import Gateway, RunningBroker, eventually

pytestmark = pytest.mark.kafka

EVENT = b'{"id":1}'
OLD, NEW, VIEWER = "old-token-of-tests", "new-token-of-tests", "viewer-token-of-tests"
CONFIG = """
[http]
workers = 2
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 250
[auth]
mode = "token"
[producers.shop]
token_sha256 = {hashes}
topics = ["{topic}"]
[producers.viewer]
token_sha256 = ["{viewer}"]
roles = ["view"]
[topics."{topic}"]
key = ["/id"]
"""


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def bearer(token: str) -> dict[str, str | bytes]:
    return {**JSON, "Authorization": f"Bearer {token}"}


async def test_the_old_token_of_a_rotation_stands_still(
    kafka: RunningBroker, topic_name: str, start_gateway: Callable[..., Gateway]
) -> None:
    def text(*tokens: str) -> str:
        hashes = json.dumps([digest(token) for token in tokens])
        viewer = digest(VIEWER)
        return CONFIG.format(
            bootstrap=kafka.bootstrap, topic=topic_name, hashes=hashes, viewer=viewer
        )

    kafka.create_topic(topic_name, 1)
    gateway = start_gateway(text(OLD))

    def last_uses() -> dict[str, Any]:
        path = "/v1/producers/shop"
        page = exchange(gateway.management_port, "GET", path, bearer(VIEWER)).document
        return {each["sha256_prefix"]: each["last_used"] for each in page["tokens"]}

    for _ in range(4):  # connections of their own: both workers take some
        assert post(gateway.port, topic_name, EVENT, bearer(OLD)).status == 201
    old, new = digest(OLD)[:8], digest(NEW)[:8]
    await eventually(lambda: last_uses()[old] is not None)
    gateway.config.write_text(text(OLD, NEW))
    gateway.reload()
    await eventually(lambda: new in last_uses())
    before = last_uses()
    assert before[old] is not None
    assert before[new] is None

    def posted() -> bool:  # a worker may reload a moment after the parent
        return post(gateway.port, topic_name, EVENT, bearer(NEW)).status == 201

    await eventually(posted)
    await eventually(lambda: last_uses()[new] is not None)
    after = last_uses()
    assert after[old] == before[old]
    assert after[new] > after[old]
    gateway.config.write_text(text(NEW))
    gateway.reload()
    await eventually(lambda: list(last_uses()) == [new])
