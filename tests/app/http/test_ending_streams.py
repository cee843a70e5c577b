"""A stream ends once its caller would be refused: it is asked again, and after each reload."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from headgate.admin.app import management_app
from headgate.admin.control_plane import Admin
from headgate.config.settings import AuthSettings, ProducerSettings, Settings
from headgate.devstack.ports import LOOPBACK
from headgate.http.auth import Authenticator, Origins
from headgate.replays.second_tier import NoSecondTier, SecondTier
from support.gateway.admin_world import TOKENS, TOPICS, FakeInstance, admin_of
from support.gateway.data_plane_world import data_port
from support.identity.secured_ports import secured_ports

AUTH = AuthSettings(mode=("token",))
SETTINGS = Settings(auth=AUTH, producers=TOKENS, topics=TOPICS)
PATH = "/v3/clusters/c-1/topics/orders/records"
RECORD = {"value": {"type": "JSON", "data": {"id": 1}}}


def without(name: str) -> dict[str, ProducerSettings]:
    return {known: settings for known, settings in TOKENS.items() if known != name}


def with_roles(name: str, *roles: str) -> dict[str, ProducerSettings]:
    tokens = TOKENS[name].token_sha256
    return {**TOKENS, name: ProducerSettings(tokens, topics=("*",), roles=roles)}


def with_topics(name: str, *topics: str) -> dict[str, ProducerSettings]:
    return {**TOKENS, name: ProducerSettings(TOKENS[name].token_sha256, topics=topics)}


def as_another(name: str) -> dict[str, ProducerSettings]:
    return {**without(name), "another": TOKENS[name]}


def as_(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}-token"}


class OneReplay(NoSecondTier):
    """A replay that never ends."""

    async def show(self, replay_id: str) -> dict[str, Any]:
        return {"id": replay_id, "name": "r", "topic": "orders", "state": "copying"}


def reload(admin: Admin, producers: Mapping[str, ProducerSettings]) -> None:
    admin.access.authenticator = Authenticator(
        AUTH, producers, Origins.of_control_plane(SETTINGS.http)
    )


@pytest.mark.parametrize("producers", [without("viewer"), with_roles("viewer", "produce")])
@pytest.mark.parametrize(
    ("path", "last"),
    [("/v1/replays/r/events", b""), ("/console/producers?live=1", b"event: refused\n")],
)
async def test_a_page_that_is_streamed_ends_with_the_right_to_see_it(
    producers: dict[str, ProducerSettings], path: str, last: bytes
) -> None:
    service = OneReplay()
    admin = admin_of(FakeInstance(SETTINGS), services=SecondTier(service, service, service))
    async with (
        TestClient(TestServer(management_app(admin))) as client,
        asyncio.timeout(60),
        client.get(path, headers=as_("viewer")) as answer,
    ):
        assert answer.status == 200
        await answer.content.readuntil(b"\n\n")
        reload(admin, with_roles("shop", "view"))  # which changes nothing for this caller
        reload(admin, producers)
        assert (await answer.content.read()).startswith(last)
        with_these = await client.get(path, headers=as_("viewer"))
        assert with_these.status in (401, 403)


class Produced:
    """A connection that streams records."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    async def opened(cls, port: int, token: str, context: ssl.SSLContext | None = None) -> Produced:
        reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=context)
        lines = [f"POST {PATH} HTTP/1.1", "Host: x", "Transfer-Encoding: chunked"]
        lines += ["Content-Type: application/json", f"Authorization: Bearer {token}"]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        return cls(reader, writer)

    async def next(self) -> Any:
        """Send a record, and return its report."""
        text = json.dumps(RECORD).encode()
        self.writer.write(b"%x\r\n%s\r\n" % (len(text), text))
        return await self.report()

    async def report(self) -> Any:
        """The next report, or None at the end."""
        while True:
            line = await self._reader.readline()
            if line.startswith(b"{"):
                return json.loads(line)
            if not line:
                return None


@pytest.mark.parametrize(
    ("producers", "code"),
    [
        (without("shop"), 401),
        (with_roles("shop", "view"), 403),
        (with_topics("shop", "deals"), 403),
        (as_another("shop"), 401),
    ],
)
async def test_records_that_are_streamed_end_with_the_right_to_post(
    producers: dict[str, ProducerSettings], code: int
) -> None:
    async with data_port(callers=Authenticator(AUTH, TOKENS)) as port, asyncio.timeout(60):
        front = port.plane._confluent.service.events
        produced = await Produced.opened(port.port, "shop-token")
        try:
            for callers in (TOKENS, {**TOKENS, "new": ProducerSettings()}):
                front.authenticator = Authenticator(AUTH, callers)
                assert (await produced.next())["error_code"] == 200
            front.authenticator = Authenticator(AUTH, producers)
            assert (await produced.next())["error_code"] // 100 == code
            assert await produced.report() is None
        finally:
            produced.writer.close()
        assert len(port.room.written) == 2


async def test_a_signed_token_that_expires_ends_its_stream(tmp_path: Path) -> None:
    async with secured_ports(tmp_path, {}) as ports, asyncio.timeout(120):
        claims = {"sub": "robot", "topics": ["orders"], "roles": ["produce"]}
        token = ports.issuer.token("key", **claims, exp=int(ports.now) + 100)
        produced = await Produced.opened(ports.data.port, token, ports.client_context())
        try:
            assert (await produced.next())["error_code"] == 200
            ports.now += 200
            code = 200
            while code == 200:  # it is not asked again for each record
                code = (await produced.next())["error_code"]
                await asyncio.sleep(0.05)
            assert code // 100 == 401
            assert await produced.report() is None
        finally:
            produced.writer.close()
