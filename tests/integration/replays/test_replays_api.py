"""Replays, offsets and snapshots over HTTP, on two real clusters."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from headgate.replays.spec import moment
from support.kafka import kafka_log
from support.process.stack import Gateway, RunningBroker
from support.scenarios.replay_world import BASE_MS, Api, Two, mirror, post, until

pytestmark = pytest.mark.kafka


def by_partition(two: Two, topic: str) -> tuple[dict[int, list[Any]], dict[int, list[Any]]]:
    """What an independent client reads on both tiers."""
    found = []
    for broker in two:
        records: dict[int, list[Any]] = {}
        for one in kafka_log.read_log(broker.bootstrap, topic):
            records.setdefault(one.partition, []).append(one)
        found.append(records)
    return found[0], found[1]


def test_offsets_are_translated_both_ways(two: Two, topic: str, api: Api) -> None:
    sources, targets = by_partition(two, topic)
    for to, given, wanted in (("backfill", sources, targets), ("ingest", targets, sources)):
        asked = {str(one): [each.offset for each in some] for one, some in given.items()}
        answer = api.ask(
            "POST", "/v1/offsets/translate", {"topic": topic, "to": to, "offsets": asked}
        )
        assert answer.status == 200
        for one, some in given.items():
            assert answer.page["offsets"][str(one)] == [
                {"source": each.offset, "offset": other.offset, "result": "exact"}
                for each, other in zip(some, wanted[one], strict=True)
            ]
    # 7 records, their marker, 2 aborted ones and their marker; the end; and far beyond
    first = {"topic": topic, "to": "backfill", "offsets": {"0": [7, 9, 10_000]}}
    rows = api.ask("POST", "/v1/offsets/translate", first).page["offsets"]["0"]
    following = targets[0][7].offset
    assert [(one["offset"], one["result"]) for one in rows] == [
        (following, "next"), (following, "next"), (None, "out_of_range"),
    ]  # fmt: skip


def is_live(gateway: Gateway) -> bool:
    """It need not be ready."""
    with closing(HTTPConnection("127.0.0.1", gateway.management_port, timeout=10)) as connection:
        try:
            connection.request("GET", "/live")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False


def test_places_are_translated_while_the_ingest_tier_is_away(
    two: Two, topic_name: str, tmp_path: Path
) -> None:
    two.create_topic(topic_name)
    post(two, topic_name, 0, range(7))  # partition 1 was never mirrored
    mirror(two, topic_name)
    nowhere = {"HEADGATE_CLUSTERS__MAIN__BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    gateway = Gateway(tmp_path, two.config(), (), nowhere)
    try:
        until(lambda: is_live(gateway), bool)
        ask: dict[str, Any] = {
            "topic": topic_name,
            "to": "backfill",
            "offsets": {"0": [0], "1": [0]},
        }
        answer = Api(gateway).ask("POST", "/v1/offsets/translate", ask)
        assert answer.status == 200, answer.page
        assert [one[0]["result"] for one in answer.page["offsets"].values()] == [
            "exact", "out_of_range",
        ]  # fmt: skip
        ask["offsets"] = {"2": [0]}
        answer = Api(gateway).ask("POST", "/v1/offsets/translate", ask)
        assert (answer.status, answer.page["reason"]) == (503, "kafka_unavailable")
        assert "cluster main does not answer" in answer.page["detail"]
    finally:
        gateway.kill()


@pytest.mark.full
def test_coverage_follows_the_mirror(two: Two, topic: str, api: Api) -> None:
    page = api.get(f"/v1/coverage/{topic}")["partitions"]
    sources, targets = by_partition(two, topic)
    for one in (0, 1):
        assert page[str(one)]["source"]["start"] == sources[one][0].offset
        assert page[str(one)]["target"] == {
            "start": targets[one][0].offset, "end": targets[one][-1].offset + 1,
        }  # fmt: skip
        assert page[str(one)]["not_mirrored"] == {"before": 0, "behind": 0}
    assert page["0"]["times"] == {"from": moment(BASE_MS), "to": moment(BASE_MS + 39_000)}
    post(two, topic, 1, range(120, 125))
    assert api.get(f"/v1/coverage/{topic}")["partitions"]["1"]["not_mirrored"]["behind"] > 4
    mirror(two, topic)
    assert api.get(f"/v1/coverage/{topic}")["partitions"]["1"]["not_mirrored"]["behind"] == 0


def test_seek_gives_the_places_of_exactly_the_range(two: Two, topic: str, api: Api) -> None:
    start = {"timestamp": BASE_MS + 12_000}
    end = {"timestamp": BASE_MS + 110_000}
    dry = api.create(topic, **{"from": start}, to=end, deliver={"mode": "seek"}, dry_run=True)
    assert (dry.status, dry.page["dry_run"]) == (200, True)
    assert (dry.page["planned"]["records"], dry.page["planned"]["covered"]) == (38, True)
    assert api.get(f"/v1/replays?topic={topic}")["replays"] == []
    made = api.create(topic, **{"from": start}, to=end, deliver={"mode": "seek"})
    assert (made.status, made.page["state"]) == (201, "ready")
    assert made.headers["Location"] == f"/v1/replays/{made.page['id']}"
    assert made.page["required"] == {"isolation.level": "read_committed"}
    result = made.page["result"]
    assert result["bootstrap_servers"] == two.backfill.bootstrap
    starts = {int(one): place["start"] for one, place in result["offsets"].items()}
    read = [
        one
        for one in kafka_log.read_from(result["bootstrap_servers"], result["topic"], starts)
        if one.offset < result["offsets"][str(one.partition)]["end"]
    ]
    wanted = [
        one
        for records in by_partition(two, topic)[0].values()
        for one in records
        if BASE_MS + 12_000 <= one.timestamp_ms < BASE_MS + 110_000
    ]
    assert sorted(str(one[2:]) for one in read) == sorted(str(one[2:]) for one in wanted)
    assert len(read) == 38
    (listed,) = api.get(f"/v1/replays?topic={topic}&state=ready")["replays"]
    assert listed == made.page
    assert api.ask("DELETE", f"/v1/replays/{made.page['id']}").page["state"] == "cancelled"
    again = api.ask("DELETE", f"/v1/replays/{made.page['id']}")
    assert (again.status, again.page["state"]) == (200, "cancelled")
    resumed = api.ask("POST", f"/v1/replays/{made.page['id']}/resume")
    assert (resumed.status, resumed.page["reason"]) == (409, "replay_finished")


def test_group_commits_what_a_consumer_goes_on_from(two: Two, topic: str, api: Api) -> None:
    sources, targets = by_partition(two, topic)
    start = {"offsets": {"0": sources[0][9].offset, "1": sources[1][5].offset}}
    deliver = {"mode": "group", "group": f"g-{topic}"}
    made = api.create(topic, **{"from": start}, deliver=deliver)
    assert (made.status, made.page["state"]) == (201, "completed")
    committed = kafka_log.group_offsets(two.backfill.bootstrap, f"g-{topic}", topic)
    assert committed == {0: targets[0][9].offset, 1: targets[1][5].offset}
    assert made.page["result"]["group"] == f"g-{topic}"


def test_a_group_with_members_is_left_alone(two: Two, topic: str, api: Api) -> None:
    group = f"g-{topic}"
    consumer = Consumer({"bootstrap.servers": two.backfill.bootstrap, "group.id": group})
    try:
        consumer.subscribe([topic])
        until(lambda: (consumer.poll(0.1), consumer.assignment())[1], bool)
        deliver = {"mode": "group", "group": group}
        refused = api.create(topic, deliver=deliver)
        assert (refused.status, refused.page["reason"]) == (409, "group_active")
    finally:
        consumer.close()
    assert kafka_log.group_offsets(two.backfill.bootstrap, group, topic) == {0: -1, 1: -1}
    assert api.get(f"/v1/replays?topic={topic}")["replays"] == []


def test_what_is_not_mirrored_is_refused(two: Two, topic: str, api: Api) -> None:
    post(two, topic, 1, range(120, 125))
    ends = kafka_log.end_offsets(two.ingest.bootstrap, topic)
    to = {"offsets": {str(one): end for one, end in ends.items()}}
    refused = api.create(topic, to=to)
    assert (refused.status, refused.page["reason"]) == (422, "not_covered")
    assert refused.page["cold_offsets"] == 6  # five records and a marker
    taken = api.create(topic, to=to, allow_cold=True, dry_run=True)
    assert taken.page["planned"]["cold_offsets"] == 6
    assert taken.page["planned"]["records"] == 65
    assert not taken.page["planned"]["covered"]
    beyond = {"from": {"offsets": {"0": ends[0] + 1}}}
    assert api.create(topic, **beyond).status == 400


@pytest.mark.full
def test_snapshots_and_groups_are_bounds(two: Two, topic: str, api: Api) -> None:
    name = f"before-{topic}"
    made = api.ask("POST", "/v1/snapshots", {"name": name, "topic": topic})
    assert made.status == 201
    ends = kafka_log.end_offsets(two.ingest.bootstrap, topic)
    assert made.page["topics"] == {topic: {str(one): end for one, end in ends.items()}}
    post(two, topic, 0, range(200, 203))
    again = api.ask("POST", "/v1/snapshots", {"name": name, "topic": topic})
    assert (again.status, again.page) == (200, made.page)
    other = api.ask("POST", "/v1/snapshots", {"name": name, "group": "another"})
    assert other.status in (400, 422)
    assert name in {one["name"] for one in api.get("/v1/snapshots")["snapshots"]}
    mirror(two, topic)
    since = api.create(topic, **{"from": {"snapshot": name}}, dry_run=True)
    assert since.page["planned"]["records"] == 3
    group, first = f"ingest-{topic}", by_partition(two, topic)[0][0]
    with closing(
        Consumer({"bootstrap.servers": two.ingest.bootstrap, "group.id": group})
    ) as client:
        client.commit(offsets=[TopicPartition(topic, 0, first[30].offset)], asynchronous=False)
    kept = api.ask("POST", "/v1/snapshots", {"name": f"of-{group}", "group": group})
    assert (kept.status, kept.page["topics"]) == (201, {topic: {"0": first[30].offset}})
    for bound in ({"group": group}, {"snapshot": f"of-{group}"}):
        asked = {"partitions": [0], "from": bound, "dry_run": True}
        assert api.create(topic, **asked).page["planned"]["records"] == 13
    missing = api.create(topic, **{"from": {"group": group}})
    assert (missing.status, "partition 1 has no offset" in missing.page["detail"]) == (400, True)


def test_an_idempotency_key_makes_one_replay(topic: str, api: Api, two: Two) -> None:
    asked = {"name": "again", "topic": topic, "from": {"timestamp": 0}, "deliver": {"mode": "seek"}}

    def create(body: dict[str, Any] = asked) -> Any:
        return api.ask("POST", "/v1/replays", body, Idempotency_Key=f"key-{topic}")

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: create(), range(4)))
    assert sorted(one.status for one in answers) == [200, 200, 200, 201]
    assert len({one.page["id"] for one in answers}) == 1
    assert len(api.get(f"/v1/replays?topic={topic}")["replays"]) == 1
    other = create({**asked, "name": "another"})
    assert (other.status, other.page["reason"]) == (422, "idempotency_mismatch")


def test_many_may_ask_at_once(topic: str, api: Api) -> None:
    """Each change is a transaction of the one id that all have, and ends those of others."""
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: api.create(topic, deliver={"mode": "seek"}), range(12)))
    assert [one.status for one in answers] == [201] * 12
    assert len(api.get(f"/v1/replays?topic={topic}")["replays"]) == 12


def test_what_is_too_large_for_the_registry_is_refused(topic: str, api: Api) -> None:
    keys = [f"{number:095}" for number in range(10_000)]
    for is_dry in (True, False):
        refused = api.create(topic, filter={"keys": keys}, dry_run=is_dry)
        assert (refused.status, refused.page["reason"]) == (413, "too_large")
    assert api.get(f"/v1/replays?topic={topic}")["replays"] == []


@pytest.mark.full
def test_a_quota_counts_what_a_producer_keeps(
    topic: str, two: Two, start_gateway: Callable[..., Gateway]
) -> None:
    api = Api(start_gateway(two.config("[replays]\nactive_max = 2\nrecords_max = 50\n")))
    asked = {"name": "a", "topic": topic, "from": {"timestamp": 0}, "deliver": {"mode": "topic"}}

    def create(who: str, **more: Any) -> Any:
        return api.ask("POST", "/v1/replays", {**asked, **more}, Headgate_Producer=who)

    assert create(f"a-{topic}").page["limit"] == "replays.records_max"
    part = {"partitions": [1]}
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: create(f"a-{topic}", **part), range(4)))
    assert sorted(one.status for one in found) == [201, 201, 429, 429]
    assert create(f"b-{topic}", **part).status == 201
    mine = [one for one in found if one.status == 201]
    assert {one.page["state"] for one in mine} == {"pending"}
    assert "start `headgate-spark replay --follow`" in mine[0].page["reason"]
    assert api.ask("DELETE", f"/v1/replays/{mine[0].page['id']}").page["state"] == "cancelled"
    assert create(f"a-{topic}", **part).status == 201
    paused = api.ask("POST", f"/v1/replays/{mine[1].page['id']}/pause")
    assert (paused.status, paused.page["control"]) == (200, "pause")
    resumed = api.ask("POST", f"/v1/replays/{mine[1].page['id']}/resume")
    assert resumed.page["control"] == "run"


@pytest.mark.full
def test_events_tell_of_each_change_and_end(
    topic: str, two: Two, start_gateway: Callable[..., Gateway]
) -> None:
    gateway = start_gateway(two.config())
    api = Api(gateway)
    made = api.create(topic).page
    connection = HTTPConnection("127.0.0.1", gateway.management_port, timeout=30)
    connection.request("GET", f"/v1/replays/{made['id']}/events")
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "text/event-stream"
    first = [answer.readline() for _ in range(3)]
    assert first[0] == b"event: replay\n"
    assert b'"state":"pending"' in first[1]
    api.ask("DELETE", f"/v1/replays/{made['id']}")
    rest = answer.read()  # ends by itself
    assert b'"state":"cancelled"' in rest
    connection.close()


def waits_for_a_runner(reasons: list[dict[str, Any]]) -> bool:
    return any("no replay runner is active" in reason["what"] for reason in reasons)


def test_gateways_share_what_is_known_and_metrics_count_it(
    topic: str, two: Two, start_gateway: Callable[..., Gateway]
) -> None:
    one, other = (start_gateway(two.config()) for _ in range(2))
    made = Api(one).create(topic).page
    path = f"/v1/replays/{made['id']}"
    # a gateway knows its own changes at once, those of others soon
    found = until(lambda: Api(other).ask("GET", path), lambda answer: answer.status == 200)
    assert found.page["state"] == "pending"
    # at once, unless a runner of another test was alive within the last minute
    until(lambda: Api(one).get("/v1/status")["reasons"], waits_for_a_runner, 90)
    one.kill()
    assert Api(other).ask("DELETE", f"/v1/replays/{made['id']}").page["state"] == "cancelled"
    one.restart()
    until(lambda: Api(one).get(path)["state"], "cancelled".__eq__)
    changes = Api(other).get("/v1/changes")["changes"]
    assert changes[0]["what"] == "cancel replay"

    def figures() -> str:
        with closing(HTTPConnection("127.0.0.1", other.management_port, timeout=30)) as connection:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()

    until(figures, lambda text: 'headgate_replays{state="cancelled"}' in text)


@pytest.mark.full
def test_finished_replays_are_forgotten(
    topic: str, two: Two, start_gateway: Callable[..., Gateway]
) -> None:
    api = Api(start_gateway(two.config("[replays]\nttl_s = 1\nkeep_s = 1\n")))
    made = api.create(topic, deliver={"mode": "seek"}).page
    path = f"/v1/replays/{made['id']}"
    until(lambda: api.ask("GET", path), lambda answer: answer.page.get("state") != "ready")
    until(lambda: api.ask("GET", path).status, lambda status: status == 404)


@pytest.mark.full
def test_without_a_second_tier_it_says_so(
    kafka: RunningBroker, start_gateway: Callable[..., Gateway]
) -> None:
    config = (
        f'[clusters.main]\nbootstrap_servers = "{kafka.bootstrap}"\n[topics.x]\nkey = ["/id"]\n'
    )
    api = Api(start_gateway(config))
    refused = api.create("x")
    assert (refused.status, refused.page["reason"]) == (422, "not_covered")
    assert api.get("/v1/replays") == {"replays": [], "unavailable": []}
    assert api.get("/v1/snapshots") == {"snapshots": [], "unavailable": []}
