"""Fields that are long: refused before any work is in proportion to them, and not repeated.

A key once was hashed, in Python, before its size was looked at: 16 MB stopped a worker for seconds,
and the answer had all of it. Sizes here are such that the work that was done takes minutes.
"""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from urllib.parse import quote

import pytest

from headgate.config.settings import HttpSettings, LogSettings
from headgate.formats.envelope import read_envelope
from headgate.http.request_log import RequestLog
from headgate.metrics import logs
from headgate.model.keys import KEY_MAX_BYTES
from headgate.model.outcome import Failure, Refused
from headgate.model.record import EVENT_ID
from headgate.model.reply import problem
from headgate.replays.spec import read_spec
from headgate.replays.tiers import reading
from support.console import world
from support.console.pages import opened
from support.console.replays import some_replays
from support.gateway.data_plane_world import DataPort, PromptRoom, data_port

SHOWN = 200  # characters that an answer or a line of the log may repeat
HTTP = replace(HttpSettings(), header_max_bytes=65_536)
EVENTS, V2, V3 = (
    "/v1/topics/deals/events",
    "/topics/deals",
    "/v3/clusters/c-1/topics/deals/records",
)
TYPES = {
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "envelope": "application/vnd.headgate.batch+json",
    "cloudevent": "application/cloudevents+json",
    "cloudevents": "application/cloudevents-batch+json",
    "v2 json": "application/vnd.kafka.json.v2+json",
    "v2 text": "application/vnd.kafka.text.v2+json",
    "v2 binary": "application/vnd.kafka.binary.v2+json",
}
ABOUT = '"specversion":"1.0","id":"1","source":"s","type":"t"'

Request = tuple[str, Mapping[str, str | bytes], bytes]


def typed(kind: str, body: str, path: str = EVENTS) -> Request:
    return path, {"Content-Type": TYPES[kind]}, body.encode()


def v3(kind: str, data: str) -> str:
    return f'{{"key":{{"type":"{kind}","data":"{data}"}},"value":{{"type":"STRING","data":"x"}}}}'


def ways(key: str) -> dict[str, Request]:
    """Each way in which a request gives an event this key, which is plain ASCII."""
    plain = {"Content-Type": "text/plain"}
    escaped = "\\u006b" * len(key)
    encoded = base64.b64encode(key.encode()).decode()
    about = {f"ce-{name}": "1.0" for name in ("specversion", "id", "source", "type")}
    return {
        "a header": (EVENTS, {**plain, "Headgate-Key": key}, b"x"),
        "an encoded header": (EVENTS, {**plain, "Headgate-Key*": f"UTF-8''{key}"}, b"x"),
        "the query": (f"{EVENTS}?key={key}", plain, b"x"),
        "a pointer": typed("json", f'{{"id":"{key}"}}'),
        "a pointer to escapes": typed("json", f'{{"id":"{escaped}"}}'),
        "a pointer in an array": typed("json", f'[{{"id":"{key}"}}]'),
        "a pointer in a line": typed("ndjson", f'{{"id":"{key}"}}\n'),
        "an integer": typed("json", f'{{"id":{"7" * len(key)}}}'),
        "an envelope": typed("envelope", f'{{"events":[{{"key":"{key}","value":1}}]}}'),
        "an envelope in base64": typed(
            "envelope", f'{{"events":[{{"key_base64":"{encoded}","value":1}}]}}'
        ),
        "an attribute": typed("cloudevent", f'{{{ABOUT},"partitionkey":"{key}","data":1}}'),
        "a subject": typed("cloudevents", f'[{{{ABOUT},"subject":"{key}","data_base64":""}}]'),
        "an attribute's header": (EVENTS, {**plain, **about, "ce-partitionkey": key}, b"x"),
        "v2 JSON": typed("v2 json", f'{{"records":[{{"key":"{key}","value":{{}}}}]}}', V2),
        "v2 text": typed("v2 text", f'{{"records":[{{"key":"{key}","value":"x"}}]}}', V2),
        "v2 binary": typed("v2 binary", f'{{"records":[{{"key":"{encoded}"}}]}}', V2),
        "v3 string": typed("json", v3("STRING", key), V3),
        "v3 JSON": typed("json", v3("JSON", key), V3),
        "v3 binary": typed("json", v3("BINARY", encoded), V3),
    }


WAYS = list(ways("k"))
QUOTED = {"v2 JSON", "v3 JSON"}  # their keys have two quotes more


@pytest.fixture
async def port() -> AsyncIterator[DataPort]:
    async with data_port(room=PromptRoom(max_bytes=100_000_000), http=HTTP) as running:
        yield running


def reason_in(document: dict[str, object]) -> object:
    """Of the only event, in any of the shapes that answers have."""
    outcomes = document.get("outcomes") or document.get("offsets")
    if isinstance(outcomes, list):
        document = outcomes[0]
    return document.get("reason") or document.get("error_code")


@pytest.mark.parametrize("way", WAYS)
async def test_a_key_is_bounded_on_every_way(port: DataPort, way: str) -> None:
    longest = KEY_MAX_BYTES - (2 if way in QUOTED else 0)
    path, headers, body = ways("k" * longest)[way]
    taken = await port.ask("POST", path, headers, body)
    assert taken.status // 100 == 2, taken
    (written,) = port.room.written
    assert written.record.key is not None
    assert len(written.record.key) == KEY_MAX_BYTES
    path, headers, body = ways("k" * (longest + 1))[way]
    refused = await port.ask("POST", path, headers, body)
    assert reason_in(json.loads(refused.body)) in ("invalid_key", 42206), refused
    assert len(port.room.written) == 1
    assert not_repeated(refused.body, "k")
    assert not_repeated(taken.body, "k")


@pytest.mark.parametrize("way", [way for way in WAYS if "header" not in way and way != "the query"])
async def test_a_very_long_key_is_refused_as_well(port: DataPort, way: str) -> None:
    path, headers, body = ways("k" * 2_000_000)[way]
    refused = await port.ask("POST", path, headers, body)
    assert reason_in(json.loads(refused.body)) in ("invalid_key", 42206), refused.body[:500]
    assert len(refused.body) < 1000
    assert port.room.written == []


def not_repeated(text: bytes | str, sign: str) -> bool:
    shown = text.decode() if isinstance(text, bytes) else text
    return sign * (SHOWN + 1) not in shown


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root, stream = logging.getLogger(), io.StringIO()
    before, level = root.handlers[:], root.level
    logs.configure(LogSettings(format="json"), stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


LONG = "q" * 5000
LONGEST = "q" * 249  # of a name of a topic
VERY_LONG = "q" * 100_000
NAMED: dict[str, Request] = {
    "a topic": (f"/v1/topics/{LONG}/events", {}, b"x"),
    "a topic of v2": typed("v2 json", '{"records":[{"value":1}]}', f"/topics/{LONG}"),
    "a topic of v3": typed("json", "{}", f"/v3/clusters/c-1/topics/{LONG}/records"),
    "a topic with the longest name": (f"/v1/topics/{LONGEST}/events", {}, b"x"),
    "the longest topic of v2": typed("v2 json", '{"records":[{"value":1}]}', f"/topics/{LONGEST}"),
    "the longest topic of v3": typed("json", "{}", f"/v3/clusters/c-1/topics/{LONGEST}/records"),
    "a cluster": typed("json", "{}", f"/v3/clusters/{LONG}/topics/orders/records"),
    "a partition": typed("v2 json", '{"records":[{"value":1}]}', f"{V2}/partitions/{LONG}"),
    "a path": (f"/{LONG}", {}, b""),
    "a path of v3": (f"/v3/{LONG}", {}, b""),
    "a query": (f"{EVENTS}?{LONG}", {}, b"x"),
    "a producer": (EVENTS, {"Headgate-Producer": LONG}, b"x"),
    "a content type": (EVENTS, {"Content-Type": LONG}, b"x"),
    "a content type of v2": (V2, {"Content-Type": LONG}, b"x"),
    "a coding": (EVENTS, {"Content-Encoding": LONG}, b"x"),
    "an event id": (EVENTS, {"Headgate-Event-Id": "q" * 256, "Headgate-Key": "k"}, b"x"),
    "a long event id": (EVENTS, {"Headgate-Event-Id": LONG, "Headgate-Key": "k"}, b"x"),
    "a flag": (EVENTS, {"Headgate-Force": LONG, "Headgate-Key": "k"}, b"x"),
    "a timestamp": (EVENTS, {"Headgate-Timestamp": LONG, "Headgate-Key": "k"}, b"x"),
    "a burst": (EVENTS, {"Headgate-Burst": LONG, "Headgate-Key": "k"}, b"x"),
    "a request id": (EVENTS, {"X-Request-Id": LONG}, b"x"),
    "an idempotency key": (EVENTS, {"Idempotency-Key": LONG, "Headgate-Key": "k"}, b"x"),
    "a member of an envelope": typed("envelope", f'{{"events":[{{"{VERY_LONG}":1}}]}}'),
    "a member beside a lone surrogate": typed(
        "envelope", f'{{"events":[{{"id":"\\ud800","{VERY_LONG}":1}}]}}'
    ),
    "a header of an envelope": typed(
        "envelope", f'{{"events":[{{"value":1,"headers":{{"{VERY_LONG}":"x"}}}}]}}'
    ),
    "a header's value that is wrong": typed(
        "v2 json", f'{{"records":[{{"headers":[{{"key":"{"q" * 256}","value":"*"}}]}}]}}', V2
    ),
    "an id of an envelope": typed("envelope", f'{{"events":[{{"value":1,"id":"{VERY_LONG}"}}]}}'),
    "a time": typed("cloudevent", f'{{{ABOUT},"time":"{VERY_LONG}"}}'),
    "a version": typed("cloudevent", f'{{{ABOUT},"specversion":"{VERY_LONG}"}}'),
    "an attribute": typed("cloudevent", f'{{{ABOUT},"{VERY_LONG}":{{}}}}'),
    "an attribute in capitals": typed("cloudevent", f'{{{ABOUT},"A{VERY_LONG}":1}}'),
    "the id of a CloudEvent": typed(
        "cloudevent", f'{{{ABOUT},"subject":"k","id":"{VERY_LONG}"}}'
    ),
    "a member of v2": typed("v2 json", f'{{"records":[{{"{VERY_LONG}":1}}]}}', V2),
    "a header of v2": typed(
        "v2 json", f'{{"records":[{{"headers":[{{"key":"{VERY_LONG}"}}]}}]}}', V2
    ),
    "a member of v3": typed("json", f'{{"{VERY_LONG}":1}}', V3),
    "a type of v3": typed("json", f'{{"key":{{"type":"{VERY_LONG}","data":1}}}}', V3),
    "a header of v3": typed("json", f'{{"headers":[{{"name":"{VERY_LONG}"}}]}}', V3),
    "a time of v3": typed("json", f'{{"timestamp":"{VERY_LONG}"}}', V3),
    "the name of a large member": typed("json", f'{{"id":"k","{VERY_LONG}":"{"x" * 9000}"}}'),
    "what is no JSON": typed("json", VERY_LONG),
}  # fmt: skip


@pytest.mark.parametrize("what", NAMED)
async def test_no_long_text_is_repeated(what: str, log: io.StringIO) -> None:
    path, headers, body = NAMED[what]
    for origin in ({}, {"Origin": "http://gateway"}):  # the short way, and aiohttp's
        requests = RequestLog(logs_every_request=True)
        async with data_port(
            room=PromptRoom(max_bytes=10_000_000), http=HTTP, request_log=requests
        ) as port:
            answer = await port.ask("POST", path, {**headers, **origin}, body)
        assert answer.status >= 200
        assert not_repeated(answer.body, "q"), answer.body[:2000]
        for name, value in answer.headers.items():
            assert not_repeated(value, "q"), name
    assert log.getvalue().count("\n") >= 2
    assert not_repeated(log.getvalue(), "q"), log.getvalue()[:2000]


def replay(**members: object) -> dict[str, object]:
    whole = {"from": {"timestamp": 0}, "deliver": {"mode": "topic"}}
    return {"name": "again", "topic": "orders", **whole, **members}


REPLAYS: dict[str, dict[str, object]] = {
    "a member": replay(**{VERY_LONG: 1}),
    "a member of from": replay(**{"from": {VERY_LONG: 1}}),
    "a member of deliver": replay(deliver={"mode": "topic", VERY_LONG: 1}),
    "a member of filter": replay(filter={VERY_LONG: 1}),
    "a member of rate": replay(rate={VERY_LONG: 1}),
    "a name": replay(name=VERY_LONG),
    "a topic": replay(topic=VERY_LONG),
    "a partition": replay(**{"from": {"offsets": {VERY_LONG: 1}}}),
    "a time": replay(**{"from": {"timestamp": VERY_LONG}}),
    "a span": replay(**{"from": {"relative": VERY_LONG}}),
    "a snapshot": replay(**{"from": {"snapshot": VERY_LONG}}),
    "a mode": replay(deliver={"mode": VERY_LONG}),
    "a group": replay(deliver={"mode": "group", "group": VERY_LONG}),
    "a key": replay(filter={"keys_base64": [f"*{VERY_LONG[:9000]}"]}),
    "a header": replay(filter={"headers": {VERY_LONG: 1}}),
    "a pointer": replay(filter={"equals": {VERY_LONG: 1}}),
    "a pointer with a tilde": replay(filter={"equals": {f"/~{VERY_LONG}": 1}}),
}


@pytest.mark.parametrize("what", REPLAYS)
def test_no_long_text_of_a_replay_is_repeated(what: str) -> None:
    with pytest.raises(Refused) as refused, reading():
        read_spec(REPLAYS[what], 1_000)
    answer = problem(refused.value.failure, "r").body
    assert not_repeated(answer, "q"), answer[:2000]
    assert len(answer) < 1500


LONG_NAMES: dict[str, tuple[str, str, object]] = {
    "a replay": ("GET", f"/v1/replays/{LONG}", None),
    "events of a replay": ("GET", f"/v1/replays/{LONG}/events", None),
    "what to do with a replay": ("POST", f"/v1/replays/{LONG}/cancel", {}),
    "a topic": ("GET", f"/v1/topics/{LONG}", None),
    "the longest topic": ("GET", f"/v1/topics/{LONGEST}", None),
    "an audit": ("GET", f"/v1/audits/{LONGEST}", None),
    "a comparison": ("GET", f"/v1/audits/{LONGEST}/compare", None),
    "a topic that forgets": ("DELETE", f"/v1/suppression/{LONGEST}", None),
    "a producer": ("GET", f"/v1/producers/{LONG}", None),
    "a group": ("GET", f"/v1/groups/{LONG}", None),
    "a pause": ("PUT", f"/v1/pauses/{LONG}", {}),
    "a pause's member": ("PUT", "/v1/pauses/g", {VERY_LONG: 1}),
    "a pause's topic": ("PUT", "/v1/pauses/g", {"topic": VERY_LONG, "reason": "r"}),
    "a pause's reason": ("PUT", "/v1/pauses/g", {"reason": VERY_LONG}),
    "a replay's text": ("POST", "/v1/replays", VERY_LONG),
    "a filter of the log": ("GET", f"/v1/log?kind={LONG}", None),
    "a page": ("GET", f"/v1/producers?after={LONG}", None),
    "a limit": ("GET", f"/v1/producers?limit={LONG}", None),
    "a flag": ("GET", f"/v1/producers?pretty={LONG}", None),
    "a reason": ("GET", f"/problems/{LONG}", None),
    "a document": ("GET", f"/docs/{LONG}", None),
    "a path": ("GET", f"/{LONG}", None),
    "a method": ("q" * 500, "/v1/topics", None),
}


@pytest.mark.parametrize("what", LONG_NAMES)
async def test_no_long_text_is_repeated_by_the_control_plane(what: str) -> None:
    method, path, body = LONG_NAMES[what]
    services = (await some_replays()).services()
    async with opened(world.empty(), services) as client:
        answer = await client.request(method, path, json=body)
        text = await answer.text()
    assert not_repeated(text, "q"), text[:2000]


async def test_what_ends_well_shows_the_beginning_of_a_long_key(port: DataPort) -> None:
    for key, name in ("k" * 1000, "key"), ("ключ" * 100, "key"):
        headers = {"Content-Type": "text/plain", "Headgate-Event-Id": "e" * 256}
        answer = await port.post("deals", b"x", headers, f"?key={quote(key)}")
        assert answer.document[name] == key[: SHOWN - 1] + "…"
        assert answer.document["event_id"] == "e" * (SHOWN - 1) + "…"
        written = port.room.written[-1]
        assert written.record.key == key.encode()
        assert dict(written.record.headers)[EVENT_ID] == b"e" * 256


# ---- work in proportion to what is not bounded yet


def many(count: int, piece: str) -> str:
    return ",".join(piece.replace("N", str(number)) for number in range(count))


MANY = 300_000
NUMBERS = "1" + ",1" * 1_999_999
DIGITS = "1" * 3_000_000


def crowded_attributes() -> Request:
    attributes = many(MANY, '"aN":1')
    return typed("cloudevent", f"{{{ABOUT},{attributes}}}")


def crowded_envelope() -> Request:
    members = many(MANY, '"aN":"x"')
    return typed("envelope", f'{{"events":[{{"value":1,"headers":{{{members}}}}}]}}')


def crowded_v2() -> Request:
    headers = many(MANY, '{"key":"a","value":""}')
    return typed("v2 json", f'{{"records":[{{"value":1,"headers":[{headers}]}}]}}', V2)


def crowded_v3() -> Request:
    return typed("json", f'{{"headers":[{many(MANY, V3_HEADER)}]}}', V3)


V3_HEADER = '{"name":"a","value":""}'
# Built in the test that sends it, not while tests are collected.
CROWDED: dict[str, Callable[[], Request]] = {
    "attributes": crowded_attributes,
    "headers of an envelope": crowded_envelope,
    "headers of v2": crowded_v2,
    "headers of v3": crowded_v3,
    "a key of v2 that is an array": lambda: typed(
        "v2 json", f'{{"records":[{{"key":[{NUMBERS}]}}]}}', V2
    ),
    "a key of v3 that is an array": lambda: typed(
        "json", f'{{"key":{{"type":"JSON","data":[{NUMBERS}]}}}}', V3
    ),
    "a time with many digits": lambda: typed(
        "cloudevent", f'{{{ABOUT},"time":"2026-01-01T00:00:00.{DIGITS}Z"}}'
    ),
}


@pytest.mark.parametrize("what", CROWDED)
async def test_crowds_are_refused_before_they_are_looked_at(port: DataPort, what: str) -> None:
    path, headers, body = CROWDED[what]()
    answer = await port.ask("POST", path, headers, body)
    assert answer.status // 100 != 5
    assert port.room.written == []
    assert len(answer.body) < 1000


async def test_headers_of_many_events_are_bounded_together(port: DataPort) -> None:
    given = many(900, '"aN":"x"')
    few = f'{{"key":"k","value":1,"headers":{{{given}}}}}'

    def envelope(events: int) -> str:
        return f'{{"events":[{",".join([few] * events)}]}}'

    path, headers, body = typed("envelope", envelope(40))
    answer = await port.ask("POST", path, headers, body)
    assert {one["outcome"] for one in answer.document["outcomes"]} == {"published"}
    found = read_envelope(envelope(200).encode(), 10_000)
    refused = [one for one in found if isinstance(one, Failure)]
    assert len(refused) == 200 - 100_000 // 900
    assert "100000 headers" in refused[0].detail
