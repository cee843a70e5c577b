"""/docs at both ports: all that it needs comes from the same port, and its policy is strict."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path

import aiohttp
import orjson
import pytest
from aiohttp.test_utils import TestServer

from headgate.admin.app import management_app
from headgate.config.settings import Settings
from headgate.devstack.ports import LOOPBACK
from headgate.http.answer import FILES
from support.gateway.admin_world import FakeInstance, admin_of
from support.gateway.data_plane_world import data_port

STATIC = Path(str(files("headgate.http.openapi"))) / "static"
PORTS = ("data", "management")


@pytest.fixture
async def sites() -> AsyncIterator[dict[str, str]]:
    """The address of each port."""
    app = management_app(admin_of(FakeInstance(Settings())))
    async with data_port() as data, TestServer(app, host=LOOPBACK) as management:
        yield {
            "data": f"http://{LOOPBACK}:{data.port}",
            "management": f"http://{LOOPBACK}:{management.port}",
        }


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        yield session


@pytest.mark.parametrize("port", PORTS)
async def test_the_page_needs_nothing_from_elsewhere(
    port: str, sites: dict[str, str], http: aiohttp.ClientSession
) -> None:
    async with http.get(f"{sites[port]}/docs") as answer:
        assert answer.status == 200
        assert answer.content_type == "text/html"
        policy = dict(
            part.strip().partition(" ")[::2]
            for part in answer.headers["Content-Security-Policy"].split(";")
        )
        text = await answer.text()
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in str(policy)
    assert "<style" not in text
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|\sstyle=", text)
    for link in set(re.findall(r'(?:href|src)="([^"]*)"', text)) - {"data:,"}:  # no picture
        async with http.get(f"{sites[port]}/{link}") as found:
            assert found.status == 200, link


@pytest.mark.parametrize(("port", "start"), [("data", "/docs"), ("management", "/console")])
async def test_the_root_leads_to_the_first_page(
    port: str, start: str, sites: dict[str, str], http: aiohttp.ClientSession
) -> None:
    for ask in (http.get, http.head):
        async with ask(f"{sites[port]}/", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (302, start)
    async with http.get(sites[port]) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/html"
    async with http.post(f"{sites[port]}/", data=b"{}") as answer:
        assert answer.status in (404, 405)


@pytest.mark.parametrize("port", PORTS)
async def test_the_files_are_those_of_the_package(
    port: str, sites: dict[str, str], http: aiohttp.ClientSession
) -> None:
    kinds = {".js": "text/javascript", ".css": "text/css"}
    for path in (*STATIC.glob("*.[jc]s*"), *STATIC.glob("vendor/*.[jc]s*")):
        async with http.get(f"{sites[port]}/docs/{path.name}") as answer:
            assert answer.content_type == kinds[path.suffix]
            assert answer.headers["Cache-Control"] == "no-cache"
            assert await answer.read() == path.read_bytes()
            tag = answer.headers["ETag"]
        async with http.get(
            f"{sites[port]}/docs/{path.name}", headers={"If-None-Match": tag}
        ) as again:
            assert again.status == 304


@pytest.mark.parametrize("port", PORTS)
async def test_it_shows_what_its_port_serves(
    port: str, sites: dict[str, str], http: aiohttp.ClientSession
) -> None:
    async with http.get(f"{sites[port]}/docs/openapi.json") as answer:
        paths = orjson.loads(await answer.read())["paths"]
    assert ("/v1/topics/{topic}/events" in paths) == (port == "data")
    assert ("/v1/producers" in paths) == (port == "management")
    assert "/docs" in paths


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize(
    "name", ["nothing.js", "docs.html", "..%2Fdocs.html", "vendor", "README.md"]
)
async def test_unknown_files_of_the_docs_page_are_not_found(
    port: str, name: str, sites: dict[str, str], http: aiohttp.ClientSession
) -> None:
    from yarl import URL

    async with http.get(URL(f"{sites[port]}/docs/{name}", encoded=True)) as answer:
        assert answer.status == 404
        assert orjson.loads(await answer.read())["reason"] == "not_found"


def test_the_files_are_listed() -> None:
    there = {path.name for path in (*STATIC.glob("*.[jc]s*"), *STATIC.glob("vendor/*.[jc]s*"))}
    assert set(FILES) == {*there, "openapi.json"}
