"""Replays that set a group's offsets: groups of the new protocol (KIP-848)."""

from __future__ import annotations

from contextlib import closing

import pytest

from support.kafka import kafka_log
from support.kafka.rd_member import RdMember
from support.scenarios.replay_world import Api, Two, until

pytestmark = pytest.mark.kafka


def test_a_group_of_the_new_protocol_is_left_alone_while_it_has_members(
    two: Two, topic: str, api: Api
) -> None:
    group, brokers = f"g-{topic}", two.backfill.bootstrap
    deliver = {"mode": "group", "group": group}
    start = {"offsets": {"0": 0, "1": 0}}
    with closing(RdMember(brokers, topic, group, "c1", "consumer")) as member:
        until(member.owned, {0, 1}.__eq__)
        member.commit(0, 3)
        refused = api.create(topic, **{"from": start}, deliver=deliver)
        assert (refused.status, refused.page["reason"]) == (409, "group_active")
        assert "has 1 members (Stable)" in refused.page["detail"]
        assert kafka_log.group_offsets(brokers, group, topic) == {0: 3, 1: -1}
    assert api.get(f"/v1/replays?topic={topic}")["replays"] == []
    made = api.create(topic, **{"from": start}, deliver=deliver)  # it is empty now
    assert (made.status, made.page["state"]) == (201, "completed")
    places = {int(one): each["start"] for one, each in made.page["result"]["offsets"].items()}
    assert kafka_log.group_offsets(brokers, group, topic) == places
    assert places[0] != 3
    with closing(RdMember(brokers, topic, group, "c2", "consumer")) as member:
        until(member.owned, {0, 1}.__eq__)  # its members go on from there, and move it
        member.commit(1, places[1] + 2)
    moved = kafka_log.group_offsets(brokers, group, topic)
    assert moved == {0: places[0], 1: places[1] + 2}
