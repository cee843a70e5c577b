"""An installation that outlives its gateways: what one of them wrote, the next one must know."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from support.clients.http_client import JSON, Answer, exchange, post
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually
from support.upgrades.former import Version

QUIET_MS = 3_000
_PAUSE = json.dumps({"scope": {"topic": "orders", "partition": 1}, "reason": "a migration"})
_CONFIG = """
[http]
request_timeout_ms = 10000
drain_timeout_ms = 3000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
lane_stall_ms = 1500
[redis]
url = "{redis}"
quarantine_ms = 1000
timeout_ms = 5000
[spool]
path = "{folder}/spool"
[coalescer]
session_timeout_ms = 6000
[topics.deals]
kind = "state"
key = ["/id"]
suppress = "raw"
[topics.offers]
kind = "state"
key = ["/id"]
suppress = "canonical"
ignore = ["/at"]
[topics.orders]
key = ["/id"]
dedupe_ttl_s = 600
[topics.states]
kind = "state"
key = ["/id"]
suppress = "raw"
coalesce_quiet_ms = {quiet_ms}
coalesce_max_delay_ms = 60000
coalesce_partitions = 2
[topics.waiting]
key = ["/id"]
spool = true
spool_after_ms = 500
"""


class Written(NamedTuple):
    """What a gateway was sent and answered, in turn."""

    topic: str
    document: Mapping[str, Any]
    headers: Mapping[str, str]
    answer: Answer


def send(gateway: Gateway, topic: str, document: Mapping[str, Any], **headers: str) -> Written:
    """Post one event. headers: with underscores in their names."""
    given = {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    answer = post(gateway.port, topic, json.dumps(document).encode(), given)
    return Written(topic, document, headers, answer)


def again(gateway: Gateway, one: Written, **changes: Any) -> dict[str, Any]:
    """What another gateway answers to the same."""
    answer = send(gateway, one.topic, {**one.document, **changes}, **one.headers).answer
    found: dict[str, Any] = answer.document
    return found


class Installation:
    """Kafka, Redis, folders and the configuration."""

    def __init__(self, broker: RunningBroker, redis: RunningRedis, folder: Path) -> None:
        self.broker = broker
        self.text = _CONFIG.format(
            bootstrap=broker.bootstrap, redis=redis.url, folder=folder, quiet_ms=QUIET_MS
        )
        self.file = folder / "installation.toml"
        self.file.write_text(self.text)
        self.known: list[Written] = []
        self.spooled: list[Written] = []
        self.held: Written | None = None

    def initialise(self, version: Version) -> None:
        """As an operator does before the first start."""
        for topic in ("deals", "offers", "orders", "states", "waiting"):
            self.broker.create_topic(topic, 2)
        done = version.run("init", "--config", str(self.file))
        assert done.returncode == 0, done

    async def write(self, gateway: Gateway) -> None:
        """Something of each kind, as long as Kafka is there."""
        for topic in ("deals", "offers"):
            await _until_suppressed(gateway, topic)
            self.known.append(send(gateway, topic, {"id": "known", "v": 1, "at": 1}))
        self.known.append(send(gateway, "orders", {"id": 1}, Idempotency_Key="a-key"))
        self.known.append(send(gateway, "orders", {"id": 2}, Headgate_Event_Id="an-id"))
        assert [one.answer.status for one in self.known] == [201] * 4, self.known
        answer = exchange(gateway.management_port, "PUT", "/v1/pauses/billing", JSON,
                          _PAUSE.encode())  # fmt: skip
        assert answer.status < 300, answer
        self.held = send(gateway, "states", {"id": "held", "v": 1})
        assert self.held.answer.document["outcome"] == "held", self.held

    async def spool(self, gateway: Gateway) -> None:
        """The same while Kafka is away. What comes first may be on its way there."""
        for number in range(20):
            self.spooled.append(send(gateway, "waiting", {"id": number % 3, "n": number}))
        outcomes = [one.answer.document.get("outcome") for one in self.spooled]
        assert outcomes == ["spooled"] * 20, outcomes

    async def check(self, gateway: Gateway) -> None:
        """All of it is known to a gateway that has just started."""
        self._check_suppressed(gateway)
        self._check_repeats(gateway)
        self._check_pauses(gateway)
        await self._check_spooled(gateway)
        await self._check_held(gateway)
        for topic in ("deals", "offers", "orders", "waiting"):
            log = self.log(topic)
            ids = Counter(one.header("hg-event-id") for one in log)
            first = self.spooled[0].answer.document["event_id"].encode()
            assert {one for one, count in ids.items() if count > 1} <= {first}, topic

    def log(self, topic: str) -> list[LogRecord]:
        """As an independent client reads it."""
        return read_log(self.broker.bootstrap, topic)

    def _check_suppressed(self, gateway: Gateway) -> None:
        for one in self.known[:2]:
            found = again(gateway, one)
            place = {name: one.answer.document[name] for name in ("partition", "offset")}
            assert found.items() >= {"outcome": "unchanged", **place}.items(), found
        assert again(gateway, self.known[1], at=2)["outcome"] == "unchanged"
        for one in self.known[:2]:
            assert again(gateway, one, v=2)["outcome"] == "published"
            assert again(gateway, one, v=2)["outcome"] == "unchanged"
            assert again(gateway, one)["outcome"] == "published"

    def _check_repeats(self, gateway: Gateway) -> None:
        for one in self.known[2:]:
            found = again(gateway, one)
            place = {name: one.answer.document[name] for name in ("partition", "offset")}
            assert found.items() >= {"outcome": "duplicate", **place}.items(), found
            assert again(gateway, one, other=True)["reason"] == "idempotency_mismatch"

    def _check_pauses(self, gateway: Gateway) -> None:
        page = exchange(gateway.management_port, "GET", "/v1/pauses/billing").document
        (intent,) = page["intents"]
        assert intent.items() >= json.loads(_PAUSE).items(), page

    async def _check_spooled(self, gateway: Gateway) -> None:
        def is_drained() -> bool:
            page = exchange(gateway.management_port, "GET", "/v1/spool").document
            return page["events"] == 0  # type: ignore[no-any-return]

        await eventually(is_drained, 30, 0.1)
        last = send(gateway, "waiting", {"id": 0, "n": 20}).answer.document
        assert last["outcome"] == "published", last
        log = self.log("waiting")
        for key in range(3):
            numbers = [json.loads(one.value or b"")["n"] for one in log if one.key == b"%d" % key]
            wanted = [n for n in range(20) if n % 3 == key] + ([20] if key == 0 else [])
            assert list(dict.fromkeys(numbers)) == wanted

    async def _check_held(self, gateway: Gateway) -> None:
        """A later event of its partition's owner is released behind it: nothing else comes."""
        await eventually(lambda: len(self.log("states")) == 1, 30, 0.2)
        assert send(gateway, "states", {"id": "held", "v": 2}).answer.status == 202
        await eventually(lambda: len(self.log("states")) > 1, 30, 0.2)
        values = [json.loads(one.value or b"")["v"] for one in self.log("states")]
        assert values == [1, 2]


async def _until_suppressed(gateway: Gateway, topic: str) -> None:
    """A key of its own is sent until it is: then the topic suppresses."""

    def is_unchanged() -> bool:
        return send(gateway, topic, {"id": "first"}).answer.document["outcome"] == "unchanged"

    await eventually(is_unchanged, 30, 0.1)
