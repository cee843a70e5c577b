"""Callers on real TLS connections: heads that are known already, certificates, versions of TLS."""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import RawTestServer

from headgate.admin.requests import asking, handed_on
from headgate.config.settings import ProducerSettings, Settings
from headgate.devstack.ports import LOOPBACK
from headgate.http.auth import Certificate, Peer
from headgate.http.pages import problems
from headgate.http.request_log import RequestLog
from headgate.supervisor.control import PARENT_SECRET
from headgate.supervisor.parent import management_sites
from support.identity.authority import Authority
from support.identity.secured_ports import Answer, Caller, SecuredPorts, secured_ports, send

PATH = "/v1/topics/orders/events"
JSON = {"Content-Type": "application/json"}
MACHINE = {"machine": ProducerSettings(topics=("orders",))}


async def posted(connection: http.client.HTTPConnection, caller: Caller) -> Answer:
    headers = {**JSON, **caller.headers}
    return await asyncio.to_thread(send, connection, "POST", PATH, b'{"id":1}', headers)


def signed(ports: SecuredPorts, **claims: object) -> Caller:
    said = {"sub": "robot", "topics": ["orders"], "roles": ["produce"], **claims}
    return Caller(ports.issuer.token("key", **said))


async def test_a_known_head_ends_with_its_token(tmp_path: Path) -> None:
    async with secured_ports(tmp_path, {}) as ports:
        caller = signed(ports, exp=int(ports.now) + 100)
        connection = ports.connect(caller)
        heads = ports.data.plane._confluent.service.events.plain_posts.heads
        for _ in range(3):
            assert (await posted(connection, caller)).status == 201
        assert len(heads._known) == 1, "the second and third were not parsed"
        ports.now += 129
        assert (await posted(connection, caller)).status == 201
        ports.now += 2
        refused = await posted(connection, caller)
        assert (refused.status, refused.document["detail"]) == (401, "the token has expired")
        connection.close()


async def test_a_known_head_ends_with_the_key(tmp_path: Path) -> None:
    async with secured_ports(tmp_path, {}) as ports:
        caller = signed(ports)
        connection = ports.connect(caller)
        for _ in range(3):
            assert (await posted(connection, caller)).status == 201
        ports.issuer.keys.clear()
        ports.issuer.add("other")
        await ports.fetch_keys()
        assert (await posted(connection, caller)).status == 401
        connection.close()


async def test_heads_that_differ_in_their_token_alone_are_different(tmp_path: Path) -> None:
    async with secured_ports(tmp_path, {}) as ports:
        one, other = signed(ports, sub="one"), signed(ports, sub="other")
        forged = Caller(f"{(other.token or '')[:-4]}AAAA")
        connection = ports.connect(one)
        for caller, status in ((one, 201), (other, 201), (forged, 401), (one, 201), (forged, 401)):
            assert (await posted(connection, caller)).status == status
        names = [dict(one.record.headers)["hg-producer"] for one in ports.data.room.written]
        assert names == [b"one", b"other", b"one"]
        connection.close()


async def test_a_certificate_names_the_producer_on_both_ways(tmp_path: Path) -> None:
    async with secured_ports(tmp_path, MACHINE) as ports:
        caller = Caller(pair=ports.authority.issue("machine"))
        connection = ports.connect(caller)
        for extra in ({}, {}, {"Content-Encoding": "identity"}, {}):
            headers = {**JSON, **extra}
            await asyncio.to_thread(send, connection, "POST", PATH, b'{"id":1}', headers)
        names = [dict(one.record.headers)["hg-producer"] for one in ports.data.room.written]
        assert set(names) == {b"machine"}
        assert len(names) >= 3
        connection.close()


async def test_a_connection_ends_with_its_certificate(tmp_path: Path) -> None:
    async with secured_ports(tmp_path, MACHINE) as ports:
        caller = Caller(pair=ports.authority.issue("machine"))
        connection = ports.connect(caller)
        assert (await posted(connection, caller)).status == 201
        ports.now += timedelta(days=2).total_seconds()  # it was issued later than `now`
        refused = await posted(connection, caller)
        assert refused.status == 401
        assert "expired" in refused.document["detail"]
        connection.close()


async def test_a_certificate_of_another_authority_does_not_come_in(tmp_path: Path) -> None:
    async with secured_ports(tmp_path, MACHINE) as ports:
        (tmp_path / "other").mkdir()
        for pair in (
            Authority(tmp_path / "other").issue("machine"),
            ports.authority.issue("machine", lasts=timedelta(hours=-1)),
        ):
            connection = ports.connect(Caller(pair=pair))
            with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
                await posted(connection, Caller())
            connection.close()
        assert ports.data.room.written == []


async def test_clients_may_have_to_show_one(tmp_path: Path) -> None:
    async with secured_ports(tmp_path, MACHINE, tls_client_auth="required") as ports:
        connection = ports.connect(Caller())
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            await asyncio.to_thread(send, connection, "GET", "/live", b"", {})
        connection.close()
        caller = Caller(pair=ports.authority.issue("machine"))
        assert (await ports.ask(caller, "GET", "/live")).status == 200


@pytest.mark.parametrize(
    ("floor", "spoken", "comes_in"),
    [
        ("1.2", ssl.TLSVersion.TLSv1_1, False),
        ("1.2", ssl.TLSVersion.TLSv1_2, True),
        ("1.3", ssl.TLSVersion.TLSv1_2, False),
        ("1.3", ssl.TLSVersion.TLSv1_3, True),
    ],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
async def test_the_oldest_version_of_tls(
    tmp_path: Path, floor: str, spoken: ssl.TLSVersion, comes_in: bool
) -> None:
    async with secured_ports(tmp_path, {}, tls_min_version=floor) as ports:
        context = ports.client_context()
        context.minimum_version = context.maximum_version = spoken
        context.set_ciphers("ALL:@SECLEVEL=0")  # or this side would not speak 1.1

        def shakes_hands(port: int) -> bool:
            with socket.create_connection((LOOPBACK, port), timeout=60) as raw:
                try:
                    with context.wrap_socket(raw, server_hostname=LOOPBACK):
                        return True
                except (ssl.SSLError, ConnectionError):
                    return False

        for port in (ports.data.port, ports.management_port):
            assert await asyncio.to_thread(shakes_hands, port) is comes_in


def test_a_worker_drops_internal_headers_of_its_client() -> None:
    certificate = Certificate((("cn", "pröbe"), ("uri", 'x"\n')), 4e9)
    forged = [("Accept", "x")]
    for name in ("X-Headgate-Certificate", "X-Headgate-Remote", "X-Headgate-Secret", "X-Headgate-"):
        spellings = (name, name.lower(), name.upper(), name.replace("-", "_"), name)
        forged += [(spelled, "forged") for spelled in spellings]
    told = [("Accept", "x"), ("X-Headgate-Secret", "secret"), ("X-Headgate-Remote", "192.0.2.7")]
    assert handed_on(Peer("192.0.2.7"), forged, "secret") == told
    names = [name for name, _ in handed_on(Peer("192.0.2.7", certificate), forged, "secret")]
    assert names == [*(name for name, _ in told), "X-Headgate-Certificate"]


async def test_the_parent_believes_workers_alone(tmp_path: Path) -> None:
    certificate = Certificate((("cn", "pröbe"), ("uri", 'x"\n')), 4e9)
    found: list[Peer] = []

    async def note(request: aiohttp.web.Request) -> aiohttp.web.Response:
        found.append(asking(request))
        return aiohttp.web.Response()

    app = aiohttp.web.Application(middlewares=[problems(RequestLog())])
    app.router.add_get("/", note)
    http_settings = type(Settings().http)(port=1, management_port=1)
    async with management_sites(app, http_settings, tmp_path / "parent.sock"):
        secret_file = tmp_path / PARENT_SECRET
        headers = handed_on(Peer("192.0.2.7", certificate), [], secret_file.read_text())
        wrong = handed_on(Peer("192.0.2.7", certificate), [], "0" * 64)
        unreadable = [*headers[:-1], ("X-Headgate-Certificate", "x")]

        async def status(given: list[tuple[str, str]]) -> int:
            lines = ["GET / HTTP/1.1", "Host: parent", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in given]
            path = str(tmp_path / "parent.sock")
            async with asyncio.timeout(60):
                reader, writer = await asyncio.open_unix_connection(path)
                writer.write("\r\n".join([*lines, "", ""]).encode())
                answer = await reader.read()
                writer.close()
            return int(answer.split()[1])

        assert await status(headers) == 200
        assert await status([]) == await status(wrong) == 403
        assert await status(unreadable) == 400
        for name, value in headers:
            for spelled in (name, name.lower(), name.upper()):
                assert await status([*headers, (spelled, value)]) == 400, spelled
    async with RawTestServer(note) as server, aiohttp.ClientSession() as session:
        await session.get(server.make_url("/"), headers=headers)
    assert found == [Peer("192.0.2.7", certificate), Peer(LOOPBACK)]


async def test_without_credentials_the_answer_says_which_ways_there_are(tmp_path: Path) -> None:
    async with secured_ports(tmp_path, {}) as ports:
        answer = await ports.ask(Caller(), "POST", PATH, b"{}", JSON)
        assert "Bearer <token>` or a client certificate" in answer.document["detail"]
