"""Lanes with SASL/OAUTHBEARER: a real broker that checks tokens by the keys of their issuer."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headgate.devstack.servers import KafkaInstallation
from headgate.kafka.access import OAuthClient
from support.clients.http_client import post
from support.identity.issuer import ISSUER, Issuer, JwksServer, serving
from support.kafka.kafka_log import read_log
from support.kafka.lane_history import running_lanes
from support.kafka.secured_broker import SecuredBroker, Tokens
from support.process.stack import Gateway, eventually

pytestmark = pytest.mark.kafka

AUDIENCE = "kafka"
SESSION_MS = 4_000


class World(NamedTuple):
    broker: SecuredBroker
    issuer: JwksServer

    @property
    def client(self) -> OAuthClient:
        return OAuthClient(self.issuer.token_url, self.issuer.client, self.issuer.secret, "produce")

    def options(self, **other: object) -> dict[str, Any]:
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "OAUTHBEARER",
            "ssl_cafile": str(self.broker.authority),
            "oauth": self.client,
            **other,
        }


@pytest.fixture(scope="module")
def world(
    kafka_installation: KafkaInstallation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    issuer = Issuer()
    issuer.add("key", "RS256")
    with serving(issuer) as server, pytest.MonkeyPatch.context() as patched:
        server.claims = {"sub": "gate", "aud": AUDIENCE}
        tokens = Tokens(server.url, ISSUER, AUDIENCE, SESSION_MS)
        patched.setenv("JAVA_TOOL_OPTIONS", tokens.java_options)
        folder = tmp_path_factory.mktemp("secured")
        secured = SecuredBroker(kafka_installation, folder, tokens)
        try:
            secured.node.wait()
            yield World(secured, server)
        finally:
            secured.node.kill()


async def test_lanes_with_a_token(world: World, topic_name: str) -> None:
    world.broker.node.create_topic(topic_name, 2)
    world.issuer.tokens.clear()
    async with running_lanes(world.broker.bootstrap, topic_name, **world.options()) as lanes:
        for number in range(200):
            lanes.put(topic_name, number % 2)
        await lanes.all_ended()
        assert len(lanes.history.offsets) == 200
        log = await asyncio.to_thread(read_log, world.broker.node.bootstrap, topic_name)
        lanes.history.check(log)
    assert world.issuer.tokens[0] == {"grant_type": ["client_credentials"], "scope": ["produce"]}


async def test_a_gateway_with_a_token(
    world: World, topic_name: str, tmp_path: Path, start_gateway: Callable[..., Gateway]
) -> None:
    """As the configuration has it."""
    world.broker.node.create_topic(topic_name, 2)
    secret = tmp_path / "secret"
    secret.write_text(f"{world.issuer.secret}\n")
    gateway = start_gateway(
        f"""
        [clusters.main]
        bootstrap_servers = ["{world.broker.bootstrap}"]
        security_protocol = "SASL_SSL"
        sasl_mechanism = "OAUTHBEARER"
        sasl_oauth_token_url = "{world.issuer.token_url}"
        sasl_oauth_client_id = "{world.issuer.client}"
        sasl_oauth_client_secret_file = "{secret}"
        ssl_cafile = "{world.broker.authority}"
        [topics."{topic_name}"]
        keyless = "spread"
        """
    )
    answer = await asyncio.to_thread(post, gateway.port, topic_name, b"{}")
    assert answer.status == 201


async def test_sessions_that_the_broker_ends_lose_and_double_nothing(
    world: World, topic_name: str
) -> None:
    """A connection outlives its session (KIP-368) only with a new token, which aiokafka shows on a
    new connection alone."""
    world.broker.node.create_topic(topic_name, 2)
    world.issuer.lasts_s = 2  # each session needs a token of its own
    try:
        async with running_lanes(world.broker.bootstrap, topic_name, **world.options()) as lanes:
            asked, number = len(world.issuer.tokens), 0

            def goes_on() -> bool:
                nonlocal number
                lanes.put(topic_name, number % 2)
                number += 1
                return len(world.issuer.tokens) > asked + 3

            await eventually(goes_on, 30, 0.02)
            await lanes.all_ended()
            assert len(lanes.history.offsets) == number
            log = await asyncio.to_thread(read_log, world.broker.node.bootstrap, topic_name)
            lanes.history.check(log)
    finally:
        world.issuer.lasts_s = 600


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("wrong", ["secret", "no issuer", "audience", "redirected"])
async def test_without_a_good_token_nobody_comes_in(
    world: World, topic_name: str, wrong: str
) -> None:
    issuer, client = world.issuer, world.client
    if wrong == "secret":
        client = replace(client, client_secret="guess")
    elif wrong == "no issuer":
        client = replace(client, token_url="http://127.0.0.1:1/token")
    elif wrong == "audience":
        issuer.claims = {"sub": "gate", "aud": "other"}
    else:
        issuer.status, issuer.headers = 307, {"Location": issuer.token_url}
    options = world.options(oauth=client)
    try:
        async with running_lanes(world.broker.bootstrap, topic_name, **options) as lanes:
            await eventually(lambda: "cannot connect" in lanes.lanes.health("main")[1], 30)
            assert not lanes.lanes.health("main")[0]
    finally:
        issuer.claims = {"sub": "gate", "aud": AUDIENCE}
        issuer.status, issuer.headers = 200, {}
    gc.collect()
