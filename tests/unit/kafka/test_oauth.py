"""Tokens for Kafka: asked for once for most of their life, with what the issuer wants."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError

from headgate.kafka.access import ClientCredentials, ClusterAccess, OAuthClient, client_arguments
from support.identity.authority import Authority
from support.identity.issuer import Issuer, JwksServer, serving


@pytest.fixture
def issuer() -> Iterator[JwksServer]:
    keys = Issuer()
    keys.add("key")
    with serving(keys) as server:
        yield server


def client(issuer: JwksServer, **other: Any) -> OAuthClient:
    return replace(OAuthClient(issuer.token_url, issuer.client, issuer.secret), **other)


async def test_a_token_is_used_for_most_of_its_life(issuer: JwksServer) -> None:
    now = 0.0
    source = ClientCredentials(client(issuer), lambda: now)
    first = await source.token()
    assert set(await asyncio.gather(*(source.token() for _ in range(20)))) == {first}
    now = 0.8 * issuer.lasts_s - 1
    assert await source.token() == first
    assert issuer.tokens == [{"grant_type": ["client_credentials"]}]
    now += 1
    await source.token()
    assert len(issuer.tokens) == 2


async def test_those_who_ask_at_once_ask_once(issuer: JwksServer) -> None:
    source = ClientCredentials(client(issuer))
    await asyncio.gather(*(source.token() for _ in range(20)))
    assert len(issuer.tokens) == 1


async def test_a_token_over_tls_comes_from_a_known_authority(tmp_path: Path) -> None:
    authority, keys = Authority(tmp_path), Issuer()
    keys.add("key")
    with serving(keys, authority.issue("issuer")) as server:
        with pytest.raises(KafkaConnectionError):
            await ClientCredentials(client(server)).token()
        assert server.tokens == []
        assert await ClientCredentials(client(server, ca_file=str(authority.file))).token()


async def test_a_scope_is_asked_for(issuer: JwksServer) -> None:
    await ClientCredentials(client(issuer, scope="a b")).token()
    assert issuer.tokens == [{"grant_type": ["client_credentials"], "scope": ["a b"]}]


async def test_a_bad_secret_is_an_error_of_the_connection_without_the_secret(
    issuer: JwksServer,
) -> None:
    with pytest.raises(KafkaConnectionError) as caught:
        await ClientCredentials(client(issuer, client_secret="guess")).token()
    assert "guess" not in repr(caught.value)
    assert issuer.secret not in repr(client(issuer))


async def test_no_error_shows_a_secret_of_the_address(issuer: JwksServer) -> None:
    gone = "http://ann:hush@127.0.0.1:1/token?key=hush"
    for address in (f"{issuer.token_url}?api_key=hush", gone, "http://hush@/?key=hush"):
        source = ClientCredentials(client(issuer, token_url=address, client_secret="guess"))
        with pytest.raises(KafkaConnectionError) as caught:
            await source.token()
        assert "***" in str(caught.value)
        assert "hush" not in repr(caught.value)


async def test_the_secret_follows_no_redirect(issuer: JwksServer) -> None:
    issuer.status, issuer.headers = 302, {"Location": issuer.url}
    with pytest.raises(KafkaConnectionError):
        await ClientCredentials(client(issuer)).token()
    assert (len(issuer.tokens), issuer.asked) == (1, 0)


def test_every_client_of_kafka_gets_them(issuer: JwksServer) -> None:
    access = ClusterAccess("h:1", "SASL_PLAINTEXT", "OAUTHBEARER", oauth=client(issuer))
    found = client_arguments(access)["sasl_oauth_token_provider"]
    assert isinstance(found, ClientCredentials)
    assert client_arguments(ClusterAccess("h:1"))["sasl_oauth_token_provider"] is None
