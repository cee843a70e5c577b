"""Tokens of HTTP that have no case: each is the same token in capitals and in mixed case.

The table lists every place where a gateway compares one.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

import pytest

from headgate.config.settings import AuthSettings, HttpSettings, ProducerSettings
from headgate.http.auth import Authenticator, Cors, Peer
from headgate.http.pages import prefers_openmetrics
from support.gateway.data_plane_world import PromptRoom, data_port

V1, V2 = "/v1/topics/deals/events", "/topics/deals"
V3 = "/v3/clusters/c-1/topics/deals/records"
EVENT = b'{"id":1}'
TOKEN = "secret"
ENVELOPE = b'{"events":[{"key":"k","value":1}]}'
CLOUDEVENT = b'{"specversion":"1.0","id":"1","source":"s","type":"t","subject":"k"}'
V2_BODY = b'{"records":[{"key":"k","value":1}]}'
V3_BODY = b'{"key":{"type":"STRING","data":"k"}}'


class Token(NamedTuple):
    """A header with a token that has no case, and the request that depends on it."""

    where: str
    header: str
    value: str
    path: str = V1
    body: bytes = EVENT
    content_type: str = "application/json"


TOKENS = [
    Token("media type: JSON", "Content-Type", "application/json"),
    Token("media type: JSON, with a charset", "Content-Type", "application/json; charset=utf-8"),
    Token("media type: lines", "Content-Type", "application/x-ndjson", body=EVENT + b"\n"),
    Token("media type: +json", "Content-Type", "application/vnd.x+json"),
    Token(
        "media type: envelope", "Content-Type", "application/vnd.headgate.batch+json", body=ENVELOPE
    ),
    Token("media type: event", "Content-Type", "application/cloudevents+json", body=CLOUDEVENT),
    Token(
        "media type: events",
        "Content-Type",
        "application/cloudevents-batch+json",
        body=b"[" + CLOUDEVENT + b"]",
    ),
    Token("media type: v2", "Content-Type", "application/vnd.kafka.json.v2+json", V2, V2_BODY),
    Token("media type: v3", "Content-Type", "application/json", V3, V3_BODY),
    Token("name of a charset: v3", "Content-Type", "application/json; charset=utf-8", V3, V3_BODY),
    Token("coding: gzip", "Content-Encoding", "gzip", body=gzip.compress(EVENT)),
    Token("coding: x-gzip", "Content-Encoding", "x-gzip", body=gzip.compress(EVENT)),
    Token("coding: none", "Content-Encoding", "identity"),
    Token("coding of v3: none", "Content-Encoding", "identity", V3, V3_BODY),
    Token("scheme: Bearer", "Authorization", f"bearer {TOKEN}"),
    Token("flag", "Headgate-Force", "true"),
    Token("charset of RFC 8187", "Headgate-Key*", "utf-8''k"),
]


def spellings(value: str) -> list[str]:
    """The token in three cases; what follows a scheme, or a charset, is no token."""
    for sign in (" ", "''"):
        token, between, rest = value.partition(sign)
        if between and "/" not in token:
            return [f"{one}{sign}{rest}" for one in spellings(token)]
    return [value, value.upper(), value.title()]


@pytest.mark.parametrize("token", TOKENS, ids=[token.where for token in TOKENS])
async def test_a_token_has_no_case(token: Token) -> None:
    digest = sha256(TOKEN.encode()).hexdigest()
    settings = ProducerSettings(token_sha256=(digest,), topics=("*",))
    callers = Authenticator(AuthSettings(mode=("token",)), {"shop": settings})
    room = PromptRoom()
    async with data_port(room=room, callers=callers) as port:
        found = []
        for spelling in spellings(token.value):
            headers = {"Content-Type": token.content_type, "Authorization": f"Bearer {TOKEN}"}
            headers[token.header] = spelling
            for origin in ({}, {"Origin": "http://gateway"}):  # the short way, and aiohttp's
                answer = await port.ask("POST", token.path, {**headers, **origin}, token.body)
                assert answer.status in (200, 201), (spelling, answer)
            found.append(room.written[-1].record.value)
    assert len({*found}) == 1


def test_schemes_and_media_types_are_case_insensitive() -> None:
    basic = b"basic " + b64encode(f"x:{TOKEN}".encode())
    digest = sha256(TOKEN.encode()).hexdigest()
    settings = ProducerSettings(token_sha256=(digest,), topics=("*",))
    callers = Authenticator(AuthSettings(mode=("token",)), {"shop": settings})
    for credentials in (basic, b"BASIC" + basic[5:], b"Basic" + basic[5:]):
        identity = callers.identify({b"authorization": credentials}, Peer("127.0.0.1"))
        assert getattr(identity, "name", None) == "shop", identity
    for accept in ("application/openmetrics-text; q=0.5", "Application/OpenMetrics-Text; Q=0.5"):
        assert prefers_openmetrics(accept)
    cors = Cors(["https://App.example"])
    for origin in ("https://app.example", "HTTPS://APP.EXAMPLE"):
        assert "Access-Control-Allow-Origin" in cors.headers({"Origin": origin})


@pytest.mark.parametrize(
    ("prefer", "minimal"),
    [
        ("return=minimal", True),
        ("Return=Minimal", True),
        ('respond-async, RETURN="minimal"', True),
        ("return=minimal; x=y", True),
        ("return=minimalist", False),
        ("no-return=minimal", False),
    ],
)
async def test_a_preference_is_a_token(prefer: str, minimal: bool) -> None:
    async with data_port(http=replace(HttpSettings())) as port:
        headers = {"Content-Type": "application/x-ndjson", "Prefer": prefer}
        answer = await port.ask("POST", V1, headers, EVENT)
        assert (json.loads(answer.body)["outcomes"] == []) is minimal
