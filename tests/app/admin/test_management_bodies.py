"""Bodies of management requests: who it is is asked before they are read, and none takes for ever.

The pages are those of the router, so that no new one is forgotten.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from headgate.admin.app import management_app
from headgate.config.settings import AuthSettings, HttpSettings, Settings
from headgate.http.server import PagesRunner
from headgate.supervisor.control import Forward
from headgate.supervisor.parent import management_sites
from support.gateway.admin_world import TOKENS, TOPICS, FakeInstance, KeptInMemory, admin_of
from support.gateway.data_plane_world import data_port

JSON = "Content-Type: application/json\r\n"
LONG_S = 20.0  # a test that is green never waits for it


def app_of(mode: str = "token", body_timeout_ms: int = 30_000) -> web.Application:
    settings = Settings(
        http=HttpSettings(body_timeout_ms=body_timeout_ms),
        auth=AuthSettings(mode=("token",) if mode == "token" else ("none",)),
        producers=TOKENS,
        topics=TOPICS,
    )
    return management_app(admin_of(FakeInstance(settings), KeptInMemory()))


def changing() -> Iterator[tuple[str, str]]:
    """Method and path of every page that is no GET."""
    for route in app_of().router.routes():
        if route.method not in ("GET", "HEAD") and route.resource is not None:
            names = {"topic": "deals", "group": "billing", "id": "r"}
            yield route.method, route.resource.canonical.format(**names)


READING = [
    ("POST", "/v1/replays"), ("POST", "/v1/offsets/translate"), ("POST", "/v1/snapshots"),
    ("PUT", "/v1/pauses/billing"), ("DELETE", "/v1/pauses/billing"),
]  # fmt: skip


@asynccontextmanager
async def served(app: web.Application, folder: Path, ports: int) -> AsyncIterator[int]:
    """The pages on a port of their own, or behind a worker's."""
    if ports == 2:
        pages = PagesRunner(app, 8190, 0.1)
        await pages.setup()
        try:
            await web.TCPSite(pages, "127.0.0.1", 0).start()
            yield pages.addresses[0][1]
        finally:
            await pages.cleanup()
        return
    forward, one_port = Forward(folder), HttpSettings(port=1, management_port=1)
    async with (
        management_sites(app, one_port, folder / "parent.sock"),
        data_port(others=forward) as front,
    ):
        yield front.port
        await forward.close()


async def asked(
    port: int, head: str, body: bytes = b"", later: bytes = b""
) -> tuple[int, dict[str, str]]:
    """Status and problem document of a request whose body does not come, or only `body` of it.

    later: is sent once the server asks for it.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{head}\r\n".encode() + body)
        async with asyncio.timeout(LONG_S):
            answer = await reader.readuntil(b"\r\n\r\n")
            while answer.startswith(b"HTTP/1.1 100"):
                writer.write(later)
                answer = await reader.readuntil(b"\r\n\r\n")
            lines = answer.decode().lower().split("\r\n")
            (length,) = (line for line in lines if line.startswith("content-length:"))
            document = await reader.readexactly(int(length.partition(":")[2]))
        is_page = document.startswith(b"<!doctype")  # of the console
        return int(lines[0].split()[1]), {} if is_page else orjson.loads(document)
    finally:
        writer.close()


@pytest.mark.parametrize("ports", [1, 2])
async def test_a_stranger_is_refused_before_the_body(tmp_path: Path, ports: int) -> None:
    pages = list(changing())
    assert set(READING) < set(pages)
    async with served(app_of(), tmp_path, ports) as port:
        for method, path in pages:
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n{JSON}"
            assert (await asked(port, head))[0] == 401, path


@pytest.mark.parametrize("ports", [1, 2])
async def test_a_slow_body_has_a_deadline(tmp_path: Path, ports: int) -> None:
    async with served(app_of("none", body_timeout_ms=100), tmp_path, ports) as port:
        for method, path in READING:
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n{JSON}"
            status, problem = await asked(port, head, b"{")
            assert (status, problem["reason"]) == (408, "request_timeout"), path


@pytest.mark.parametrize("ports", [1, 2])
async def test_a_large_body_is_refused_before_it_is_there(tmp_path: Path, ports: int) -> None:
    async with served(app_of("none"), tmp_path, ports) as port:
        for method, path in READING:
            head = (
                f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
                f"Content-Length: 1048577\r\nExpect: 100-continue\r\n{JSON}"
            )
            status, problem = await asked(port, head)
            assert (status, problem["reason"]) == (413, "too_large"), path
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{JSON}"
            chunked = b"100001\r\n" + b" " * 0x100001 + b"\r\n0\r\n\r\n"
            status, problem = await asked(port, head + "Transfer-Encoding: chunked\r\n", chunked)
            assert (status, problem["reason"]) == (413, "too_large"), path


FORM = "Content-Type: application/x-www-form-urlencoded\r\n"


def forms() -> list[str]:
    """The console's pages that take one."""
    return [path for method, path in changing() if method == "POST" and "/console/" in path]


@pytest.mark.parametrize("ports", [1, 2])
async def test_a_form_has_the_same_deadline_and_limit(tmp_path: Path, ports: int) -> None:
    assert len(forms()) > 5
    async with served(app_of("none", body_timeout_ms=100), tmp_path, ports) as port:
        for path in forms():
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{FORM}"
            assert (await asked(port, f"{head}Content-Length: 9\r\n", b"a"))[0] == 408, path
            waits = f"{head}Content-Length: 1048577\r\nExpect: 100-continue\r\n"
            assert (await asked(port, waits))[0] == 413, path
            chunked = b"100001\r\n" + b"a" * 0x100001 + b"\r\n0\r\n\r\n"
            found, _ = await asked(port, f"{head}Transfer-Encoding: chunked\r\n", chunked)
            assert found == 413, path


@pytest.mark.parametrize("ports", [1, 2])
async def test_a_form_is_one_and_says_so(tmp_path: Path, ports: int) -> None:
    """403: it was read, and has not its reader's token."""
    async with served(app_of("none"), tmp_path, ports) as port:
        for line, body, status in (
            (FORM, b"csrf=x", 403),
            (FORM.replace("\r\n", "; charset=utf-8\r\n"), b"csrf=x", 403),
            (f"{FORM}Expect: 100-continue\r\n", b"csrf=x", 403),
            ("", b"", 403),
            ("", b"csrf=x", 415),
            ("Content-Type: multipart/form-data; boundary=x\r\n", b"--x--\r\n", 415),
            (JSON, b"{}", 415),
            (FORM, b"csrf=%ff", 400),
            (FORM, b"a=1&" * 200, 400),
        ):
            head = (
                "POST /console/replays/new HTTP/1.1\r\nHost: a\r\n"
                f"Content-Length: {len(body)}\r\n{line}"
            )
            waits = "100-continue" in line
            found, _ = await asked(port, head, b"" if waits else body, later=body)
            assert found == status, (line, body)


@pytest.mark.parametrize("ports", [1, 2])
async def test_a_broken_body_is_a_mistake_of_the_client(
    tmp_path: Path, ports: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with served(app_of("none"), tmp_path, ports) as port:
        for method, path in READING:
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{JSON}Expect: 100-continue\r\n"
            chunked = "Transfer-Encoding: chunked\r\n"
            status, problem = await asked(port, head + chunked, later=b"1\r\n{}x")
            assert (status, problem["reason"]) == (400, "malformed"), path
    assert not [one for one in caplog.records if one.levelno > logging.INFO]


@pytest.mark.parametrize("ports", [1, 2])
async def test_a_body_may_be_compressed(tmp_path: Path, ports: int) -> None:
    body = gzip.compress(b'{"scope": "all", "reason": "deploy"}')
    bomb = gzip.compress(b" " * 1_048_577)
    async with served(app_of("none"), tmp_path, ports) as port:
        for given, status in ((body, 200), (bomb, 413), (body[:-9], 400)):
            length = f"Content-Length: {len(given)}\r\nContent-Encoding: gzip\r\n"
            head = f"PUT /v1/pauses/g HTTP/1.1\r\nHost: a\r\n{length}{JSON}"
            assert (await asked(port, head, given))[0] == status


@pytest.mark.parametrize("ports", [1, 2])
async def test_a_body_is_json_and_says_so(tmp_path: Path, ports: int) -> None:
    body = b'{"scope": "all", "reason": "deploy"}'
    async with served(app_of("none"), tmp_path, ports) as port:
        for line, status in (
            (JSON, 200),
            ("Content-Type: application/json; charset=utf-8\r\n", 200),
            ("Content-Type: text/plain\r\n", 400),
            ("Content-Type: application/x-www-form-urlencoded\r\n", 400),
            ("", 400),
        ):
            head = f"PUT /v1/pauses/g HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n{line}"
            found, page = await asked(port, head, body)
            assert found == status, line
            assert status == 200 or "application/json" in page["detail"]


@pytest.mark.parametrize("ports", [1, 2])
async def test_a_client_that_leaves_is_no_error(
    tmp_path: Path, ports: int, caplog: pytest.LogCaptureFixture
) -> None:
    """In the middle of a body, and with one that cannot be unpacked."""
    async with served(app_of("none"), tmp_path, ports) as port:
        for method, path in READING:
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n{JSON}"
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{head}\r\n{{".encode())
            await asyncio.sleep(0.02)
            writer.transport.abort()
            packed = f"{head}Content-Encoding: gzip\r\n"
            status, problem = await asked(port, packed, b"no gzip..")
            assert (status, problem["reason"]) == (400, "malformed"), path
        await asyncio.sleep(0.1)
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []
