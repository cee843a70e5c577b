"""Facts in the audit: read from real Kafka as gateways wrote them, and counted by other means."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.audits.facts import Facts, encode_records
from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason
from headgate_spark.audit.diagnosis import sent, wasteful, with_unpublished
from headgate_spark.audit.facts import fact_rows, summed
from headgate_spark.audit.figures import (
    ProducerFigures,
    Unpublished,
    UnpublishedKey,
    UnpublishedRow,
)
from headgate_spark.audit.job import AuditRequest, audit
from headgate_spark.audit.page import senders_table
from headgate_spark.audit.result import topic_result
from headgate_spark.job.command_line import report_to_people
from headgate_spark.job.options import read_config
from support.gateway.coalescing_gateway import run_init
from support.gateway.facts_world import facts_of, sums
from support.kafka import kafka_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually
from support.scenarios import skew_world

AT_MS = 1_750_000_000_000
SAVES, OTHERS = 1013, 21
MISSING = Failure(Reason.MISSING_KEY, "none")


# ---- judged without Spark


def judged(unpublished: Unpublished) -> Any:
    figures = skew_world.figures_of(skew_world.uniform())
    producers = (ProducerFigures("shop", 300, 9000), ProducerFigures("web", 10, 100))
    return with_unpublished(replace(figures, producers=producers), unpublished)


REPORTED = Unpublished(
    None,
    rows=(
        UnpublishedRow("cron", "rejected", 40, 400),
        UnpublishedRow("shop", "superseded", 212, 200_000),
        UnpublishedRow("shop", "unchanged", 1000, 800_000),
    ),
    keys=(UnpublishedKey(b"2342565", "shop", "unchanged", 900, 700_000),),
    since_ms=AT_MS,
)


def test_producers_get_what_kafka_never_saw() -> None:
    figures = judged(REPORTED)
    assert figures.producers == (
        ProducerFigures("shop", 300, 9000, 1000, 212, 0, 0),
        ProducerFigures("web", 10, 100, 0, 0, 0, 0),
        ProducerFigures("cron", 0, 0, 0, 0, 40, 0),
    )
    assert [sent(one) for one in figures.producers] == [1512, 10, 40]
    (waste,) = wasteful(figures)  # cron has too few to be judged
    assert waste.share == pytest.approx(1212 / 1512)
    advice = topic_result(figures)["recommendations"]
    (send_less,) = [one for one in advice if one["action"] == "send-changes-only"]
    assert send_less["expected"]["bytes"] == 1_000_000
    assert "shop sent 1,512 events, of which Kafka got 300" in send_less["why"]
    assert "most of it key 2342565 (900 unchanged)" in send_less["why"]


def test_one_sampled_fact_is_no_advice() -> None:
    """One in a hundred was told: a single one is scaled up to a hundred events."""
    for seen, advised in ((1, 0), (5, 0), (20, 1)):
        rows = (UnpublishedRow("web", "unchanged", 100 * seen, 100 * seen, seen),)
        figures = judged(Unpublished(None, rows=rows, since_ms=AT_MS, is_sampled=True))
        assert len(list(wasteful(figures))) == advised, seen


def test_many_producers_of_facts_are_bounded_and_not_taken_for_silent_ones() -> None:
    rows = (UnpublishedRow("cron", "rejected", 40, 400),)
    told = Unpublished(None, rows=rows, since_ms=AT_MS, other_events=7, other_bytes=70)
    figures = judged(told)
    assert [one.unchanged for one in figures.producers] == [None, None, 0]
    assert (told.shown()["events"], told.shown()["bytes"]) == (47, 470)
    many = with_unpublished(replace(figures, producers=(), distinct_producers=900), told)
    assert many.producers == (), "cron may be in Kafka, among those that are not listed"


def test_what_is_not_known_is_null_and_says_why() -> None:
    result = topic_result(judged(Unpublished("the topic writes no facts")))
    for one in result["producers"]:
        assert [one[name] for name in ("unchanged", "superseded", "rejected")] == [None] * 3
    assert result["facts"]["why_unknown"] == "the topic writes no facts"
    assert not [one for one in result["recommendations"] if one["action"] == "send-changes-only"]
    shown = senders_table(result)
    assert "not known: the topic writes no facts" in shown


def test_the_page_shows_senders_and_escapes_them() -> None:
    keys = (
        UnpublishedKey(b"<b>", "<i>", "unchanged", 5, 5),
        UnpublishedKey(None, "p", "rejected", 5, 5),
    )
    shown = senders_table(topic_result(judged(replace(REPORTED, keys=keys, is_sampled=True))))
    assert '<td>shop</td><td class="n">1,512</td><td class="n">300</td>' in shown
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert "<i>" not in shown
    assert "estimates" in shown


# ---- counted by Spark


def records_of(spark: SparkSession, values: list[tuple[bytes, bytes]]) -> DataFrame:
    rows = [(bytearray(key), bytearray(value)) for key, value in values]
    return spark.createDataFrame(rows, "key binary, value binary")


def test_facts_are_weighed_and_foreign_records_counted(spark: SparkSession) -> None:
    clock = [AT_MS]
    facts, values = Facts(lambda: clock[0], lambda: 0.0), list[tuple[bytes, bytes]]()
    same, never = (
        Outcome(OutcomeName.UNCHANGED, 1, 5, b"k"),
        Outcome(OutcomeName.REJECTED, failure=MISSING),
    )
    facts.take("shop", "a", 1, [same] * 700 + [never], [10] * 700 + [3])
    facts.take("shop", "a", 50, [same] * 4, [10] * 4)  # all drawn: 200 events
    facts.coalesced("cron", "a", OutcomeName.SUPERSEDED, b"\xff\x00", 1012, 800_000)
    facts.take("shop", "b", 1, [same], [1])
    clock[0] += 60_000  # beyond the window of a
    facts.take("late", "a", 1, [same], [1])
    facts.take("late", "b", 1, [same], [1])
    for columns in facts.collect(everything=True):
        for one in encode_records(columns, 9000):
            values.append((one.topic.encode(), one.value))
    junk = [b"", b"{", b"[1]", b'{"topic": "b", "one_in": 1, "outcome": ["unchanged"]}', b"\xff"]
    values += [(b"a", one) for one in junk]
    windows = {"a": (AT_MS, AT_MS + 60_000), "b": (None, None)}
    found = summed(fact_rows(records_of(spark, values), windows)).collect()
    rows = {
        (row.topic, row.producer, row.outcome, None if row.key is None else bytes(row.key)): row
        for row in found
    }
    assert {name: (row.events, row.bytes) for name, row in rows.items() if name[2]} == {
        ("a", "shop", "unchanged", b"k"): (900, 9000),
        ("a", "shop", "rejected", None): (1, 3),
        ("a", "cron", "superseded", b"\xff\x00"): (1012, 800_000),
        ("b", "shop", "unchanged", b"k"): (1, 1),
        ("b", "late", "unchanged", b"k"): (1, 1),
    }
    assert rows["a", "shop", "unchanged", b"k"].one_in == 50
    assert sum(row.rows for row in found if row.outcome is None) == len(junk)


# ---- from gateway to page

HEAD = """
[clusters.main]
bootstrap_servers = ["BOOTSTRAP"]
metadata_refresh_ms = 500
[redis]
url = "REDIS"
namespace = "NAME"
quarantine_ms = 1
[producers.shop]
[producers.deal-admin]
[topics."NAME"]
kind = "state"
key = ["/id"]
suppress = "raw"
facts = true
[topics."NAME-held"]
kind = "state"
key = ["/id"]
suppress = "raw"
coalesce_quiet_ms = 300
coalesce_partitions = 2
facts = true
[topics."NAME-silent"]
key = ["/id"]
"""


class Sender:
    """Posts, and counts what the answers say."""

    def __init__(self, gateway: Gateway) -> None:
        self._port = gateway.port
        self.ends: Counter[tuple[str, str, str]] = Counter()

    def post(self, topic: str, producer: str, *events: dict[str, Any]) -> None:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        headers = {"content-type": "application/json", "headgate-producer": producer}
        try:
            path, body = f"/v1/topics/{topic}/events", json.dumps(events)
            connection.request("POST", path, body, headers)
            outcomes = json.loads(connection.getresponse().read())["outcomes"]
        finally:
            connection.close()
        for one in outcomes:
            name = "unchanged" if one.get("records") == 0 else one["outcome"]
            self.ends[topic, producer, name] += 1


def request_of(out: Path, topics: str, **more: Any) -> AuditRequest:
    wanted: dict[str, Any] = {
        "cluster": None, "topics": topics, "from_ms": None, "to_ms": None, "offsets": None,
        "counts": (), "out": out, "publish": False,
    }  # fmt: skip
    return AuditRequest(**{**wanted, **more})


@pytest.mark.kafka
async def test_the_audit_says_who_sent_how_many(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    spark: SparkSession,
    topic_name: str,
    tmp_path: Path,
) -> None:
    text = HEAD.replace("BOOTSTRAP", kafka.bootstrap).replace("REDIS", redis_server.url)
    file = tmp_path / "audit.toml"
    file.write_text(text.replace("NAME", topic_name))
    names = [topic_name, f"{topic_name}-held", f"{topic_name}-silent"]
    for name in names:
        kafka.create_topic(name, 3)
    assert run_init(file).returncode == 0
    began_ms = time.time_ns() // 1_000_000
    gateway = start_gateway(file.read_text())
    sender = Sender(gateway)
    send(sender, names)
    await coalesced(kafka, names[1], SAVES + OTHERS)
    gateway.stop()
    config = read_config(file, {})
    window = {"from_ms": began_ms - 1, "to_ms": time.time_ns() // 1_000_000 + 60_000}
    result = audit(
        spark, config, request_of(tmp_path / "out", ",".join(names), **window), report_to_people()
    )
    topics = {one["topic"]: one for one in result["topics"]}
    check_plain(topics[names[0]], sender)
    check_held(kafka, topics[names[1]])
    assert topics[names[2]]["producers"][0]["unchanged"] is None
    assert "facts = true" in topics[names[2]]["facts"]["why_unknown"]
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Sent in vain: top keys" in page


def send(sender: Sender, names: list[str]) -> None:
    plain, held, silent = names
    for _ in range(3):
        sender.post(plain, "shop", *({"id": f"k{number}"} for number in range(100)))
    sender.post(plain, "shop", *({"id": "hot"} for number in range(400)))
    sender.post(plain, "web", *({"no": number} for number in range(30)))
    for start in range(0, SAVES, 50):  # incident A's, of a deal that flaps
        saves = ({"id": "2342565", "on": n % 2} for n in range(start, min(start + 50, SAVES)))
        sender.post(held, "deal-admin", *saves)
        sender.post(held, "shop", {"id": "other", "n": start})
    sender.post(silent, "shop", {"id": 1})


async def coalesced(kafka: RunningBroker, topic: str, events: int) -> None:
    def covered() -> int:
        told = sum(one.events for one in facts_of(kafka.bootstrap, topic))
        return told + len(kafka_log.read_log(kafka.bootstrap, topic))

    await eventually(lambda: covered() >= events, 60, 0.5)


def check_plain(topic: dict[str, Any], sender: Sender) -> None:
    producers = {one["producer"]: one for one in topic["producers"]}
    assert producers.keys() == {"shop", "web"}
    ends = {(who, how): n for (name, who, how), n in sender.ends.items() if name == topic["topic"]}
    for who, one in producers.items():
        assert one["records"] == ends.get((who, "published"), 0)
        for how in ("unchanged", "superseded", "rejected", "duplicate"):
            assert one[how] == ends.get((who, how), 0), (who, how)
    assert producers["web"]["rejected"] == 30
    assert producers["shop"]["unchanged"] + producers["shop"]["records"] == 700
    assert topic["facts"]["why_unknown"] is None
    assert topic["facts"]["top_keys"][0]["key"] == "hot"
    (advice,) = [one for one in topic["recommendations"] if one["action"] == "send-changes-only"]
    assert "key hot" in advice["why"]


def check_held(kafka: RunningBroker, topic: dict[str, Any]) -> None:
    told = sums(facts_of(kafka.bootstrap, topic["topic"]))
    log = kafka_log.read_log(kafka.bootstrap, topic["topic"])
    written = Counter((one.header("hg-producer") or b"").decode() for one in log)
    producers = {one["producer"]: one for one in topic["producers"]}
    for who, events in (("deal-admin", SAVES), ("shop", OTHERS)):
        one = producers[who]
        assert one["superseded"] == told.get((who, "superseded"), 0)
        assert one["superseded"] + one["unchanged"] + written[who] == events
        assert one["records"] == written[who] <= 20
    (advice,) = [one for one in topic["recommendations"] if one["action"] == "send-changes-only"]
    assert f"deal-admin sent {SAVES:,} events, of which Kafka got" in advice["why"]
    assert "key 2342565" in advice["why"]
