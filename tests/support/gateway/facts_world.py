"""What a gateway told as facts, read by an independent client and the standard library."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter
from typing import Any, NamedTuple

from support.kafka import kafka_log
from support.process.stack import Gateway

FACTS = "headgate.facts"


class Told(NamedTuple):
    """One fact, without its time. events: how many it tells of, scaled up."""

    producer: str
    outcome: str
    reason: str | None
    partition: int | None
    offset: int | None
    key: bytes | None
    bytes: int
    events: int = 1


def facts_of(bootstrap: str, topic: str) -> list[Told]:
    """All facts of one topic."""
    found: list[Told] = []
    for record in kafka_log.read_log(bootstrap, FACTS):
        if record.key == topic.encode():
            found += _told(json.loads(record.value or b""), topic, record.timestamp_ms)
    return found


def _told(columns: dict[str, Any], topic: str, written_ms: int) -> list[Told]:
    assert columns.pop("topic") == topic
    one_in = columns.pop("one_in")
    if "key_base64" in columns:
        keys = [None if key is None else b64decode(key) for key in columns.pop("key_base64")]
    else:
        keys = [None if key is None else key.encode() for key in columns["key"]]
    columns["key"] = keys
    assert len({len(column) for column in columns.values()}) == 1
    assert all(0 <= written_ms - at_ms < 60_000 for at_ms in columns.pop("at_ms"))
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [Told(**{**row, "events": row["events"] * one_in}) for row in rows]


def sums(facts: list[Told]) -> dict[tuple[str, str], int]:
    """Events by producer and outcome."""
    found: Counter[tuple[str, str]] = Counter()
    for one in facts:
        found[one.producer, one.outcome] += one.events
    return dict(found)


def counted(gateway: Gateway, topic: str) -> dict[str, float]:
    """`headgate_facts_total` of a topic, by result."""
    import urllib.request

    found = {}
    with urllib.request.urlopen(f"{gateway.management_url}/metrics", timeout=60) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("headgate_facts_total{") and f'topic="{topic}"' in line:
                result = line.split('result="')[1].split('"')[0]
                found[result] = float(line.rpartition(" ")[2])
    return found
