"""The configurations of docs/operate/secure.md, run: only addresses and files are put in."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.clients.http_client import exchange
from support.identity.authority import Authority
from support.identity.issuer import Issuer, serving
from support.pages import sources
from support.process.stack import Gateway, RunningBroker, eventually

pytestmark = pytest.mark.kafka

PAGE = "operate/secure"


def shown(language: str, having: str) -> str:
    """The block of the page that has this text."""
    (found,) = [one for one in sources(PAGE, language) if having in one]
    return found


def whole(example: str, kafka: RunningBroker, topic: str) -> str:
    return f"""{example}
[clusters.main]
bootstrap_servers = ["{kafka.bootstrap}"]
metadata_refresh_ms = 500
[topics."{topic}"]
keyless = "spread"
"""


async def test_tokens_of_an_identity_provider(
    kafka: RunningBroker, topic_name: str, start_gateway: Callable[..., Gateway]
) -> None:
    kafka.create_topic(topic_name)
    issuer = Issuer()
    issuer.add("key", "RS256")
    with serving(issuer) as server:
        example = shown("toml", "jwt_issuer").replace(
            "https://id.example/.well-known/jwks.json", server.url
        )
        gateway = start_gateway(whole(example, kafka, topic_name))

        def status(path: str, *roles: str, **claims: object) -> int:
            said = {"client_id": "checkout", "realm_access": {"roles": roles}, **claims}
            token = issuer.token("key", **said)
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            if path.endswith("/events"):
                return exchange(gateway.port, "POST", path, headers, b"{}").status
            return exchange(gateway.management_port, "GET", path, headers).status

        events = f"/v1/topics/{topic_name}/events"
        mine = {"event_topics": [topic_name]}
        assert status(events, "event-producer", **mine) == 201
        assert status(events, "event-producer", event_topics="other") == 403
        assert status(events, "event-operator", **mine) == 403
        assert status("/v1/topics", "event-viewer") == status("/v1/topics", "event-operator") == 200
        assert status("/v1/topics", "event-producer") == 403


async def test_client_certificates(
    kafka: RunningBroker,
    topic_name: str,
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
) -> None:
    kafka.create_topic(topic_name)
    authority = Authority(tmp_path, "ca")
    authority.issue("checkout", uri="spiffe://prod/checkout")
    authority.issue("stranger", uri="spiffe://prod/stranger")
    server = authority.issue("server")
    example = (
        shown("toml", "mtls_name")
        .replace("/etc/headgate/tls.crt", str(server.certificate))
        .replace("/etc/headgate/tls.key", str(server.key))
        .replace("/etc/headgate/clients-ca.pem", str(authority.file))
        .replace('"orders"', f'"{topic_name}"')
    )
    gateway = start_gateway(whole(example, kafka, topic_name), wait=False)
    command = (
        shown("sh", "--cert checkout.crt")
        .replace("127.0.0.1:8080", f"127.0.0.1:{gateway.port}")
        .replace("/topics/orders/", f"/topics/{topic_name}/")
        .replace("curl ", "curl -sS -w '%{http_code}' ")
    )

    async def ends_with(status: str, name: str = "checkout") -> bool:
        said = command.replace("checkout.", f"{name}.")
        ran = await asyncio.to_thread(
            subprocess.run, said, shell=True, capture_output=True, text=True, cwd=tmp_path
        )
        return ran.stdout.endswith(status)

    await eventually(lambda: ends_with("201"), 60)
    assert await ends_with("401", "stranger")
