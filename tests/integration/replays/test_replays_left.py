"""What is said of a topic is of that topic, and of what is left of it on the backfill tier."""

from __future__ import annotations

from typing import Any

import pytest

from support.kafka import kafka_log
from support.scenarios.replay_copies import remake
from support.scenarios.replay_world import BASE_MS, Api, Two, mirror, post

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


def rows(api: Api, topic: str, to: str, offsets: list[int]) -> list[Any]:
    asked = {"topic": topic, "to": to, "offsets": {"0": offsets}}
    answer = api.ask("POST", "/v1/offsets/translate", asked)
    assert answer.status == 200, answer
    return list(answer.page["offsets"]["0"])


def seek(api: Api, topic: str, start: int, **more: Any) -> Any:
    since = {"from": {"offsets": {"0": start}}}
    return api.create(topic, **since, deliver={"mode": "seek"}, **more)


def test_what_retention_took_of_the_backfill_tier_is_not_covered(
    two: Two, topic: str, api: Api
) -> None:
    """The map still has it until the mirror looks, and of its newest segment for good."""
    sources, targets = (
        [one for one in kafka_log.read_log(each.bootstrap, topic) if one.partition == 0]
        for each in two
    )
    before = sources[:15]
    kafka_log.delete_records(two.backfill.bootstrap, topic, {0: targets[15].offset})
    page = api.get(f"/v1/coverage/{topic}")["partitions"]["0"]
    assert page["source"]["start"] == before[-1].offset + 1
    assert page["target"]["start"] == targets[15].offset
    assert page["not_mirrored"] == {"before": before[-1].offset + 1, "behind": 0}
    found = rows(api, topic, "backfill", [one.offset for one in sources])
    assert found[:15] == [
        {"source": one.offset, "offset": None, "result": "out_of_range", "deleted": True}
        for one in before
    ]
    assert [one["offset"] for one in found[15:]] == [one.offset for one in targets[15:]]
    back = rows(api, topic, "ingest", [targets[3].offset, targets[15].offset])
    assert (back[0]["result"], back[0]["deleted"]) == ("out_of_range", True)
    assert back[1] == {
        "source": targets[15].offset, "offset": sources[15].offset, "result": "exact",
    }  # fmt: skip
    made = seek(api, topic, page["source"]["start"])  # what coverage shows is what can be had
    assert (made.status, made.page["planned"]["records"]) == (201, 25)
    refused = seek(api, topic, 0)
    assert (refused.status, refused.page["reason"]) == (422, "not_covered")
    lacking = refused.page["partitions"]["0"]
    assert lacking["not_mirrored"] == [{"start": 0, "end": page["source"]["start"]}]
    again = api.create(topic, **{"from": {"timestamp": BASE_MS}}, allow_cold=True, dry_run=True)
    assert again.page["planned"]["records"] == 25 + 20 + 15
    assert again.page["planned"]["cold_offsets"] == page["source"]["start"]
    kafka_log.delete_records(two.backfill.bootstrap, topic)  # nothing is left
    page = api.get(f"/v1/coverage/{topic}")["partitions"]["0"]
    assert (page["segments"], page["times"]) == (0, None)
    assert page["source"]["start"] == sources[-1].offset + 1
    assert {one["result"] for one in rows(api, topic, "backfill", list(range(40)))} == {
        "out_of_range"
    }


def test_what_retention_took_of_the_ingest_tier_keeps_its_offset(
    two: Two, topic: str, api: Api
) -> None:
    sources, targets = (
        [one for one in kafka_log.read_log(each.bootstrap, topic) if one.partition == 0]
        for each in two
    )
    kafka_log.delete_records(two.ingest.bootstrap, topic, {0: sources[10].offset})
    back = rows(api, topic, "ingest", [targets[9].offset, targets[10].offset])
    assert back == [
        {"source": targets[9].offset, "offset": sources[9].offset, "result": "exact",
         "deleted": True},
        {"source": targets[10].offset, "offset": sources[10].offset, "result": "exact"},
    ]  # fmt: skip
    assert seek(api, topic, sources[9].offset).status == 201


@pytest.mark.parametrize("tier", ["ingest", "backfill"])
def test_a_map_of_a_deleted_topic_is_not_that_of_its_successor(
    two: Two, topic_name: str, api: Api, tier: str
) -> None:
    two.create_topic(topic_name)
    post(two, topic_name, 0, range(30))
    mirror(two, topic_name)
    ids = {
        "ingest": kafka_log.topic_id(two.ingest.bootstrap, topic_name),
        "backfill": kafka_log.topic_id(two.backfill.bootstrap, topic_name),
    }
    asked = {"topic": topic_name, "to": "backfill", "offsets": {"0": [0, 3]}}
    answer = api.ask("POST", "/v1/offsets/translate", asked).page
    assert (answer["topic_ids"], answer["unchecked"]) == (ids, [])
    name = f"before-{topic_name}"
    kept = api.ask("POST", "/v1/snapshots", {"name": name, "topic": topic_name}).page
    assert kept["topic_ids"] == {topic_name: ids["ingest"]}
    page = api.get(f"/v1/coverage/{topic_name}")
    assert (page["topic_ids"], page["why"]) == (ids, None)
    remake(getattr(two, tier), topic_name)
    for to in ("backfill", "ingest"):
        refused = api.ask("POST", "/v1/offsets/translate", {**asked, "to": to})
        assert (refused.status, refused.page["reason"]) == (422, "not_covered")
        assert f"was deleted and recreated on the {tier} tier" in refused.page["detail"]
    page = api.get(f"/v1/coverage/{topic_name}")
    assert page["topic_ids"][tier] != ids[tier]
    assert "was deleted and recreated" in page["why"]
    part = page["partitions"]["0"]
    assert (part["segments"], part["source"], part["topic_ids"]) == (0, {"start": 0, "end": 0}, ids)


def test_a_snapshot_of_a_deleted_topic_is_no_bound_of_its_successor(
    two: Two, topic_name: str, api: Api
) -> None:
    """Where there is no map that would be refused."""
    two.ingest.create_topic(topic_name, 2)
    post(two, topic_name, 0, range(30))
    name = f"before-{topic_name}"
    assert api.ask("POST", "/v1/snapshots", {"name": name, "topic": topic_name}).status == 201
    asked = {"from": {"snapshot": name}, "allow_cold": True, "dry_run": True}
    assert api.create(topic_name, **asked).status == 200
    remake(two.ingest, topic_name)
    refused = api.create(topic_name, **asked)
    assert (refused.status, refused.page["reason"]) == (400, "malformed")
    assert "that was deleted since" in refused.page["detail"]


def test_to_left_out_means_now(two: Two, topic: str, api: Api) -> None:
    """A mirror that never ran, or stands still, is no reason to leave records out."""
    ends = kafka_log.end_offsets(two.ingest.bootstrap, topic)
    post(two, topic, 1, range(120, 125))
    for more in ({}, {"to": {"relative": "now"}}, {"deliver": {"mode": "seek"}}):
        refused = api.create(topic, **more)
        assert (refused.status, refused.page["reason"]) == (422, "not_covered"), more
        end = ends[1] + 6  # five records and a marker
        assert refused.page["partitions"] == {
            "1": {
                "asked": {"start": 0, "end": end},
                "not_mirrored": [{"start": ends[1], "end": end}],
                "cold_offsets": 6,
                "lost_offsets": 0,
            }
        }
    covered = api.create(topic, to=refused.page["mirrored_to"], dry_run=True)
    assert (covered.status, covered.page["planned"]["records"]) == (200, 60)
    group = {"mode": "group", "group": f"g-{topic}"}  # which only says where reading begins
    assert api.create(topic, deliver=group).status == 201
    cold = api.create(topic, allow_cold=True, dry_run=True).page["planned"]
    assert (cold["records"], cold["cold_offsets"], cold["covered"]) == (65, 6, False)
    mirror(two, topic)
    covered = api.create(topic, dry_run=True)
    assert (covered.page["planned"]["records"], covered.page["planned"]["covered"]) == (65, True)


def test_a_cold_dry_run_says_how_much_it_would_read(two: Two, topic_name: str, api: Api) -> None:
    """All of it is read from the ingest tier: its records are sampled there."""
    two.ingest.create_topic(topic_name, 2)
    post(two, topic_name, 0, range(30))
    post(two, topic_name, 1, range(30, 40))
    log = kafka_log.read_log(two.ingest.bootstrap, topic_name)
    size = sum(
        len(one.key or b"") + len(one.value or b"")
        + sum(len(name) + len(value or b"") for name, value in one.headers)
        for one in log
    )  # fmt: skip
    planned = api.create(topic_name, allow_cold=True, dry_run=True).page["planned"]
    assert (planned["records"], planned["bytes"]) == (40, size)
    assert planned["cold_offsets"] > 40  # a marker of each transaction, too
    assert not planned["covered"]
    assert planned["partitions"]["0"]["records"] == 0  # of the mirror
    nothing = {"offsets": {"0": 0, "1": 0}}
    empty = api.create(topic_name, to=nothing, allow_cold=True, dry_run=True).page["planned"]
    assert (empty["records"], empty["bytes"], empty["seconds"]) == (0, 0, 0.0)


def test_of_what_was_never_mirrored_nothing_is_covered(two: Two, topic_name: str, api: Api) -> None:
    two.ingest.create_topic(topic_name, 2)
    post(two, topic_name, 0, range(30))
    refused = api.create(topic_name)
    assert (refused.status, refused.page["reason"]) == (422, "not_covered")
    assert (
        refused.page["cold_offsets"] == kafka_log.end_offsets(two.ingest.bootstrap, topic_name)[0]
    )
