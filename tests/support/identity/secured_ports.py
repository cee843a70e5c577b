"""Both ports over TLS in the test's own process, with callers that are known in every way."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from headgate.admin.app import management_app
from headgate.config.settings import AuthSettings, HttpSettings, ProducerSettings, Settings
from headgate.devstack.ports import LOOPBACK
from headgate.http.auth import AttemptLimit, Authenticator
from headgate.http.jwt import CheckedTokens, FetchedKeys
from headgate.http.listener import server_context
from headgate.http.server import PagesRunner
from support.gateway.admin_world import TOPICS, FakeInstance, KeptInMemory, admin_of
from support.gateway.data_plane_world import DataPort, data_port
from support.identity.authority import Authority, Pair
from support.identity.issuer import Issuer, settings


class Caller(NamedTuple):
    """How a client proves who it is."""

    token: str | None = None
    pair: Pair | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


class Answer(NamedTuple):
    status: int
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class SecuredPorts:
    """authority: of the server's certificate and of clients'."""

    def __init__(self, folder: Path, **http: Any) -> None:
        self.authority = Authority(folder)
        server = self.authority.issue("server")
        self.http = HttpSettings(
            tls_cert_file=str(server.certificate),
            tls_key_file=str(server.key),
            tls_client_ca_file=str(self.authority.file),
            **http,
        )
        self.issuer = Issuer()
        self.issuer.add("key")
        self._keys_file = folder / "jwks.json"
        self.auth: AuthSettings = settings(
            f"file://{self._keys_file}",
            mode=("token", "jwt", "mtls"),
            jwt_topics_claim="topics",
            jwt_roles_claim="roles",
        )
        self.now = time.time()
        self.keys = FetchedKeys(self.auth, lambda _: None, self.clock)
        self.signed = CheckedTokens(self.auth, self.keys, self.clock)
        self.data: DataPort
        self.management_app: web.Application
        self.management_port = 0

    def clock(self) -> float:
        return self.now

    async def fetch_keys(self) -> None:
        """What the issuer has now."""
        self._keys_file.write_bytes(self.issuer.document())
        await self.keys.fetch()

    def client_context(self, pair: Pair | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.file))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return context

    def connect(self, caller: Caller, port: int | None = None) -> http.client.HTTPSConnection:
        context = self.client_context(caller.pair)
        return http.client.HTTPSConnection(
            LOOPBACK, port or self.data.port, timeout=60, context=context
        )

    async def ask(
        self,
        caller: Caller,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        is_management: bool = False,
    ) -> Answer:
        """One request on a connection of its own, off the event loop."""
        connection = self.connect(caller, self.management_port if is_management else None)
        given = {**caller.headers, **(headers or {})}
        try:
            return await asyncio.to_thread(send, connection, method, path, body, given)
        finally:
            connection.close()


def send(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
) -> Answer:
    """One request on a connection."""
    connection.request(method, path, body, dict(headers))
    answer = connection.getresponse()
    return Answer(answer.status, answer.read())


def token_of(name: str) -> str:
    return f"token-of-{name}"


def producer(name: str, **more: Any) -> ProducerSettings:
    """One whose token is `token_of` the name."""
    return ProducerSettings((hashlib.sha256(token_of(name).encode()).hexdigest(),), **more)


@asynccontextmanager
async def secured_ports(
    folder: Path, producers: Mapping[str, ProducerSettings], **http: Any
) -> AsyncIterator[SecuredPorts]:
    """Listen until the block ends."""
    ports = SecuredPorts(folder, **http)
    await ports.fetch_keys()
    many = AttemptLimit(1_000_000)  # the table tries wrong ones, all from one address
    callers = Authenticator(
        ports.auth, producers, attempts=many, signed=ports.signed, clock=ports.clock
    )
    instance = FakeInstance(
        Settings(http=ports.http, auth=ports.auth, producers=producers, topics=TOPICS)
    )
    admin = admin_of(instance, KeptInMemory(), signed=ports.signed)
    ports.management_app = management_app(admin)
    runner = PagesRunner(ports.management_app, ports.http.header_max_bytes, 1.0)
    await runner.setup()
    try:
        context = server_context(ports.http)
        await web.TCPSite(runner, LOOPBACK, 0, ssl_context=context).start()
        ports.management_port = runner.addresses[0][1]
        async with data_port(callers=callers, context=context, http=ports.http) as ports.data:
            yield ports
    finally:
        await runner.cleanup()
