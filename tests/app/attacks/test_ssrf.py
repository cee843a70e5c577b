"""SSRF: no text that a client, or a file, brings makes this side ask another host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import NamedTuple

import pytest

from headgate.consumer.claims import ClaimChecks, ClaimError
from headgate.model.record import DATAREF, VALUE_BYTES, VALUE_SHA256
from headgate.model.schema import BadSchemaError, Schema
from support.gateway.data_plane_world import data_port
from support.network.accepting import accepting

DIGEST = "0" * 64


class Trap(NamedTuple):
    """A host that nobody may ask. visits: who did."""

    url: str
    visits: list[str]


@pytest.fixture
async def trap() -> AsyncIterator[Trap]:
    visits: list[str] = []

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(str(writer.get_extra_info("peername")))
        writer.close()

    async with accepting(visited) as port:
        yield Trap(f"http://127.0.0.1:{port}", visits)


async def test_ssrf_by_the_dataref_of_a_cloudevent(trap: Trap) -> None:
    """The gateway publishes it as it is: it is the producer's, and nothing is fetched."""
    ref = f"{trap.url}/secret"
    event = {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/x",
        "ce-type": "t",
        "ce-subject": "k",
    }
    async with data_port() as port:
        answer = await port.post("orders", b"", {**event, "ce-dataref": ref})
        assert answer.status == 201
        body = (
            b'{"specversion":"1.0","id":"2","source":"/x","type":"t","subject":"k","dataref":"%s"}'
            % ref.encode()
        )
        answer = await port.post("orders", body, {"Content-Type": "application/cloudevents+json"})
        assert answer.status == 201
        headers = [dict(one.record.headers) for one in port.room.written]
        assert [one[DATAREF] for one in headers] == [ref.encode()] * 2
    assert trap.visits == []


class Event(NamedTuple):
    """A record as a consumer gets it."""

    value: bytes
    headers: list[tuple[str, bytes]]


@pytest.mark.parametrize(
    "form",
    [
        "{trap}/orders/00/{digest}",
        "file:///blobs/orders/00/{digest}::{trap}/x",
        "simplecache::{trap}/orders/00/{digest}",
        "file:///blobs/../{trap}",
        "file://127.0.0.1/blobs/orders/00/{digest}",
        "github://x:y@/blobs/orders/00/{digest}",
        "s3://other/orders/00/{digest}",
        "ftp://127.0.0.1/{digest}",
    ],
)
async def test_ssrf_by_the_dataref_of_a_record(trap: Trap, form: str) -> None:
    """The consumer's library asks for nothing that lies not below its own roots."""
    url = form.format(trap=trap.url, digest=DIGEST)
    headers = [(DATAREF, url.encode()), (VALUE_SHA256, DIGEST.encode()), (VALUE_BYTES, b"1")]
    claims = ClaimChecks("file:///blobs", "s3://bucket/prefix")
    with pytest.raises(ClaimError, match="lies below none of"):
        await claims.value(Event(b"", headers))
    assert trap.visits == []


PLACES: list[Callable[[dict[str, str]], object]] = [
    lambda ref: ref,
    lambda ref: {"properties": {"a": ref}},
    lambda ref: {"$defs": {"a": ref}},
    lambda ref: {"$id": "http://h/", "allOf": [ref]},
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "form", ["{trap}/s.json", "{trap}/s.json#/a", "file:///etc/hostname", "//h/s.json"]
)
async def test_ssrf_by_the_ref_of_a_schema(
    trap: Trap, place: Callable[[dict[str, str]], object], form: str
) -> None:
    """Refused when the configuration is read, wherever in the schema it stands."""
    with pytest.raises(BadSchemaError):
        Schema(json.dumps(place({"$ref": form.format(trap=trap.url)})).encode())
    assert trap.visits == []


@pytest.mark.parametrize("place", PLACES)
async def test_ssrf_by_the_dynamic_ref_of_a_schema(
    trap: Trap, place: Callable[[dict[str, str]], object]
) -> None:
    """It may be compiled; then validating fetches nothing either."""
    text = json.dumps(place({"$dynamicRef": f"{trap.url}/s.json"})).encode()
    with suppress(BadSchemaError):
        Schema(text).check(b'{"a":1}')
    assert trap.visits == []


@pytest.mark.parametrize("name", ["$schema", "$vocabulary"])
async def test_ssrf_by_the_metaschema_of_a_schema(trap: Trap, name: str) -> None:
    with pytest.raises(BadSchemaError):
        Schema(json.dumps({name: f"{trap.url}/s.json"}).encode())
    assert trap.visits == []
