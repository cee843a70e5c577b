"""Keys for clients whose headers are Latin-1: `?key=` and `Headgate-Key*`."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest

from support.gateway.data_plane_world import DataPort, PromptRoom, data_port
from support.pages import sources

JSON = {"Content-Type": "application/json"}
KEYS = ["k", "ключ-é", "a b+c", "100%", "a'b&c=d#e?f/g", "日本\n", "\U0001f600"]


@pytest.fixture
async def port() -> AsyncIterator[DataPort]:
    async with data_port() as running:
        yield running


@pytest.mark.parametrize("key", KEYS)
async def test_a_key_of_any_characters(port: DataPort, key: str) -> None:
    encoded = quote(key, safe="")
    by_query = await port.post("clicks", b"{}", JSON, f"?key={encoded}")
    by_header = await port.post("clicks", b"{}", {**JSON, "Headgate-Key*": f"utf-8''{encoded}"})
    for answer in (by_query, by_header):
        assert (answer.status, answer.document["key"]) == (201, key)
    assert [one.record.key for one in port.room.written] == [key.encode()] * 2


@pytest.mark.parametrize(
    ("headers", "query", "reason"),
    [
        ({"Headgate-Key": "k"}, "?key=k", "malformed"),
        ({"Headgate-Key*": "UTF-8''k"}, "?key=k", "malformed"),
        ({"Headgate-Key*": "UTF-8''k", "Headgate-Key": "k"}, "", "malformed"),
        ({}, "?key=k&key=k", "malformed"),
        ({}, "?key=%FF", "malformed"),
        ({}, "?keyy=k", "malformed"),
        ({}, "?Key=k", "malformed"),
        ({}, "?key=", "missing_key"),
        ({"Headgate-Key*": "UTF-8''"}, "", "missing_key"),
        ({"Headgate-Key*": "UTF-8''%FF"}, "", "malformed"),
        ({"Headgate-Key*": "UTF-8''%F"}, "", "malformed"),
        ({"Headgate-Key*": "ISO-8859-1''%E9"}, "", "malformed"),
        ({"Headgate-Key*": "k"}, "", "malformed"),
    ],
)
async def test_invalid_key_headers_are_refused(
    port: DataPort, headers: dict[str, str], query: str, reason: str
) -> None:
    answer = await port.post("clicks", b"{}", {**JSON, **headers}, query)
    assert answer.document["reason"] == reason, answer
    assert port.room.written == []


@pytest.mark.parametrize(
    ("query", "fix"),
    [
        ("?kye=k", 'has no parameter "kye". Did you mean "key"?'),
        ("?Key=k", 'Did you mean "key"?'),
        ("?sync&kay=k", 'has no parameter "kay". Did you mean "key"?'),
    ],
)
async def test_a_misspelled_key_of_the_query_is_refused(
    port: DataPort, query: str, fix: str
) -> None:
    answer = await port.post("clicks", b"{}", JSON, query)
    assert (answer.status, answer.document["reason"]) == (400, "malformed")
    assert fix in answer.document["detail"]
    assert port.room.written == []


async def test_parameters_that_senders_add_are_ignored(port: DataPort) -> None:
    query = "?source=shop&key=k&sync&" + "x" * 300
    answer = await port.post("clicks", b"{}", JSON, query)
    assert answer.document["outcome"] == "published", answer
    assert [one.record.key for one in port.room.written] == [b"k"]


async def test_a_commit_of_a_burst_takes_topics_alone(port: DataPort) -> None:
    for query, fix in (("?topci=deals", 'Did you mean "topic"?'), ("?topic=%FF", "not UTF-8")):
        answer = await port.ask("POST", f"/v1/bursts/b-1/commit{query}", JSON)
        assert answer.status == 400
        assert fix in answer.document["detail"]


async def test_a_batch_has_no_key_of_its_own(port: DataPort) -> None:
    for headers, query in ((JSON, "?key=k"), ({**JSON, "Headgate-Key*": "UTF-8''k"}, "")):
        answer = await port.post("clicks", b"[1,2]", headers, query)
        assert (answer.status, answer.document["reason"]) == (400, "malformed")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
async def test_the_example_of_the_page() -> None:
    (example,) = sources("publish/keys", "js")
    room = PromptRoom()
    async with data_port(room) as port:
        script = example.replace("127.0.0.1:8080", f"127.0.0.1:{port.port}")
        arguments = ("node", "--input-type=module", "-e", script)
        child = await asyncio.create_subprocess_exec(
            *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await asyncio.wait_for(child.communicate(), 60)
    assert out.decode().splitlines() == ["201 ключ-é"] * 2, (out, err)
