"""Facts on real Kafka: an independent client reads what happened to events without a record."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from support.clients.http_client import Connection, exchange, request_bytes
from support.gateway.coalescing_gateway import run_init
from support.gateway.facts_world import FACTS, Told, counted, facts_of, sums
from support.kafka import kafka_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

JSON = {"content-type": "application/json"}


def config_text(bootstrap: str, redis_url: str, name: str, timeout_ms: int = 30_000) -> str:
    return f"""
[http]
request_timeout_ms = {timeout_ms}
body_max_bytes = 20000
batch_max_events = 300
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[redis]
url = "{redis_url}"
namespace = "{name}"
quarantine_ms = 1
timeout_ms = 5000
[producers.limited]
quota_events_per_s = 1
[topics."{name}"]
kind = "state"
key = ["/id"]
suppress = "raw"
max_bytes = 1000
dedupe_ttl_s = 600
facts = true
[topics."{name}-quiet"]
kind = "state"
key = ["/id"]
suppress = "raw"
[topics."{name}-held"]
kind = "state"
key = ["/id"]
suppress = "raw"
coalesce_quiet_ms = 300
coalesce_max_delay_ms = 1500
coalesce_partitions = 2
facts = true
facts_one_in = 50
"""


class Poster:
    """Posts to one gateway and notes what facts its answers mean."""

    def __init__(self, gateway: Gateway) -> None:
        self._port = gateway.port
        self.expected: Counter[Told] = Counter()
        self.outcomes: Counter[str] = Counter()

    def ask(self, topic: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=90)
        try:
            connection.request("POST", f"/v1/topics/{topic}/events", body, {**JSON, **headers})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def post(self, topic: str, body: bytes, sizes: list[int], **headers: str) -> None:
        """sizes: bytes of each event's value; one number, the body's, if it fails as a whole."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named.setdefault("headgate-producer", "shop")
        _, answer = self.ask(topic, body, named)
        outcomes = answer.get("outcomes", [answer])
        assert len(outcomes) == len(sizes), answer
        for outcome, size in zip(outcomes, sizes, strict=True):
            self._note(named["headgate-producer"], outcome, size)

    def at_once(self, topic: str, body: bytes) -> None:
        """A body over the cap, sent in one piece: it takes the short way where that lets it."""
        headers = {**JSON, "headgate-producer": "shop"}
        with Connection(self._port) as connection:
            connection.send(request_bytes("GET", "/live", {}))
            connection.answer()  # now it is idle
            connection.send(request_bytes("POST", f"/v1/topics/{topic}/events", headers, body))
            answer = connection.answer()
        assert (answer.status, answer.document["limit"]) == (413, "http.body_max_bytes")
        self._note("shop", answer.document, 0)

    def _note(self, producer: str, answer: dict[str, Any], size: int) -> None:
        name, reason = answer.get("outcome", "rejected"), answer.get("reason")
        self.outcomes[name if reason is None else reason] += 1
        if name == "published" and answer["records"] == 0:
            name = "unchanged"
        if name in ("published", "held", "unknown"):
            return
        place = (answer.get("partition"), answer.get("offset"))
        key = answer["key"].encode() if answer.get("key") is not None else None
        self.expected[Told(producer, name, reason, *place, key, size)] += 1


def prepare(kafka: RunningBroker, text: str, name: str, folder: Path) -> None:
    for topic in (name, f"{name}-quiet", f"{name}-held"):
        kafka.create_topic(topic, 3)
    config = folder / "init.toml"
    config.write_text(text)
    done = run_init(config)
    assert done.returncode == 0, done
    assert FACTS in done.stdout


def ndjson(numbers: range, padding: int = 0) -> tuple[bytes, list[int]]:
    lines = [json.dumps({"id": f"d{n}", "x": "y" * padding}).encode() for n in numbers]
    return b"\n".join(lines), [len(line) for line in lines]


async def test_an_independent_client_reads_exactly_what_happened(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
) -> None:
    text = config_text(kafka.bootstrap, redis_server.url, topic_name)
    prepare(kafka, text, topic_name, tmp_path)
    gateway = start_gateway(text)
    poster = Poster(gateway)
    lines = {"content_type": "application/x-ndjson"}
    batch = ndjson(range(250))
    for _ in range(4):
        poster.post(topic_name, *batch, **lines)
        poster.post(f"{topic_name}-quiet", b'{"id": "q"}', [11])
    post_what_fails_and_repeats(poster, topic_name)
    # of the quiet topic nothing is expected
    quiet = [one for one in poster.expected if one.key == b"q"]
    for one in quiet:
        del poster.expected[one]
    assert quiet
    reasons = {
        "malformed", "missing_key", "invalid_key", "too_large", "too_many_events",
        "unsupported_encoding", "quota_exceeded", "idempotency_mismatch",
    }  # fmt: skip
    assert set(poster.outcomes) == {"published", "unchanged", "duplicate", *reasons}
    assert topic_name in exchange(gateway.port, "GET", "/topics").document
    assert FACTS not in exchange(gateway.port, "GET", "/topics").document
    gateway.stop()  # the last second's facts are written while it drains
    found = Counter(facts_of(kafka.bootstrap, topic_name))
    assert found == poster.expected
    assert sum(one.outcome == "unchanged" for one in found.elements()) > 400
    assert facts_of(kafka.bootstrap, f"{topic_name}-quiet") == []
    log = kafka_log.read_log(kafka.bootstrap, topic_name)
    sent = sum(count for name, count in poster.outcomes.items()) - 4
    assert len(log) + found.total() == sent  # every event has a record or a fact


def post_what_fails_and_repeats(poster: Poster, topic: str) -> None:
    same = b'[{"id": "twin"}, {"id": "twin"}, {"id": "twin"}, {"no": "key"}, {"id": []}]'
    poster.post(topic, same, [14, 14, 14, 13, 10])
    for _ in range(2):
        poster.post(topic, b'{"id": "once"}', [14], headgate_event_id="e1")
        poster.post(topic, b'[{"id": "i1"}, {"id": "i2"}]', [12, 12], idempotency_key="k1")
    poster.post(topic, b'{"id": "other"}', [15], headgate_event_id="e1")
    poster.post(topic, b'{"id": ', [7])
    large = json.dumps({"id": "large", "x": "y" * 2000}).encode()
    poster.post(topic, large, [len(large)])
    over = b"[" + b"1," * 10_000 + b"1]"
    for _ in range(5):  # over the body's cap: refused before ingest sees it
        poster.at_once(topic, over)
    many = b"[" + b",".join([b"{}"] * 301) + b"]"
    poster.post(topic, many, [len(many)])
    poster.post(topic, b"{}", [0], content_encoding="br")
    while not poster.outcomes["quota_exceeded"]:  # one a second: soon, unless all stand still
        poster.post(topic, b'{"id": "quota"}', [15], headgate_producer="limited")


async def test_what_was_coalesced_is_told_by_the_coalescer(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
) -> None:
    """Superseded in windows, and unchanged at their end: all of it, though facts are sampled."""
    text = config_text(kafka.bootstrap, redis_server.url, topic_name)
    prepare(kafka, text, topic_name, tmp_path)
    gateway = start_gateway(text)
    poster, topic = Poster(gateway), f"{topic_name}-held"
    saves = [json.dumps({"id": f"d{n % 2}", "n": n % 7}).encode() for n in range(300)]

    def covered() -> int:
        facts = facts_of(kafka.bootstrap, topic)
        return len(kafka_log.read_log(kafka.bootstrap, topic)) + sum(one.events for one in facts)

    began = time.monotonic()
    for start in range(0, len(saves), 5):
        some = saves[start : start + 5]
        body, sizes = b"[" + b",".join(some) + b"]", [len(save) for save in some]
        poster.post(topic, body, sizes, headgate_producer="cron" if start % 3 else "shop")
    windows = 2 * (1 + (time.monotonic() - began) // 0.3)  # of two keys, each at least so long
    await eventually(lambda: covered() >= len(saves), 30, 0.5)
    for key in (b'{"id": "d0", "n": %d}', b'{"id": "d1", "n": %d}'):
        last = [save for save in saves if save[:10] == key[:10]][-1]
        poster.post(topic, b"{" + last[1:], [len(last)], headgate_producer="again")
    await eventually(lambda: covered() >= len(saves) + 2, 30, 0.5)
    gateway.stop()
    assert covered() == len(saves) + 2
    facts, log = facts_of(kafka.bootstrap, topic), kafka_log.read_log(kafka.bootstrap, topic)
    found = sums(facts)
    assert found["again", "unchanged"] == 2
    assert len(log) < max(30, windows)
    written = Counter((one.header("hg-producer") or b"").decode() for one in log)
    for who, total in (("cron", 200), ("shop", 100)):
        rest = found.get((who, "superseded"), 0) + found.get((who, "unchanged"), 0)
        assert rest + written[who] == total
    size = sum(len(save) for save in saves) - sum(len(one.value or b"") for one in log)
    assert sum(one.bytes for one in facts if one.producer != "again") == size


async def test_facts_never_stand_in_the_way_of_events(
    start_broker: Callable[..., RunningBroker],
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
) -> None:
    """Without their topic, and without Kafka: events are answered as ever, facts are counted."""
    kafka = start_broker()
    kafka.create_topic(topic_name, 3)
    text = config_text(kafka.bootstrap, redis_server.url, topic_name, timeout_ms=5000)
    gateway = start_gateway(text.replace("facts_one_in = 50", "").replace("facts = true", ""))
    poster, lines = Poster(gateway), {"content_type": "application/x-ndjson"}
    poster.post(topic_name, b"{}", [2])  # before the reload it is told to nobody
    gateway.config.write_text(text)
    gateway.reload()

    async def is_told() -> bool:
        poster.ask(topic_name, b"{}", {})
        return "run `headgate init --config F`" in gateway.log()

    await eventually(is_told, 20, 0.2)
    before = await eventually(lambda: counted(gateway, topic_name).get("no_topic", 0))
    batch = ndjson(range(50))
    poster.outcomes.clear()
    for _ in range(3):
        poster.post(topic_name, *batch, **lines)
    assert poster.outcomes == {"published": 50, "unchanged": 100}
    await eventually(lambda: counted(gateway, topic_name)["no_topic"] >= before + 100, 15, 0.2)
    for topic in (f"{topic_name}-quiet", f"{topic_name}-held"):
        kafka.create_topic(topic, 3)
    config = tmp_path / "init.toml"
    config.write_text(text)
    assert run_init(config, "--check").returncode == 1
    assert run_init(config).returncode == 0
    assert run_init(config, "--check").returncode == 0

    async def is_written() -> bool:
        poster.post(topic_name, *batch, **lines)
        return counted(gateway, topic_name).get("written", 0) > 0

    await eventually(is_written, 30, 0.5)
    poster.outcomes.clear()
    kafka.delete_topic(FACTS)
    lost = counted(gateway, topic_name)["no_topic"]

    async def is_lost() -> bool:
        poster.post(topic_name, *ndjson(range(50, 100)), **lines)
        return counted(gateway, topic_name)["no_topic"] > lost

    await eventually(is_lost, 30, 0.3)
    assert set(poster.outcomes) == {"published", "unchanged"}
    assert run_init(config).returncode == 0
    written = counted(gateway, topic_name)["written"]

    async def is_written_again() -> bool:
        poster.post(topic_name, *batch, **lines)
        return counted(gateway, topic_name)["written"] > written

    await eventually(is_written_again, 60, 0.5)
    assert set(poster.outcomes) == {"published", "unchanged"}
    kafka.kill()
    _, answer = poster.ask(topic_name, b'{"id": "new"}', {})
    assert answer["reason"] in ("kafka_unavailable", "unknown")

    async def is_dropped() -> bool:
        poster.ask(topic_name, b'{"id": ', {})
        _, again = poster.ask(topic_name, b'{"id": "new"}', {})
        assert again["reason"] in ("kafka_unavailable", "unknown")
        return counted(gateway, topic_name).get("kafka_unavailable", 0) > 0

    await eventually(is_dropped, 40, 0.2)
