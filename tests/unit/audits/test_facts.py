"""Facts: what is told of events that got no record, encoded, bounded and sampled."""

from __future__ import annotations

import json
import random
from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.audits.facts import (
    COLUMNS,
    FACTS_A_RECORD,
    KEY_MAX_BYTES,
    MAX_WAITING,
    Columns,
    Facts,
    encode_records,
    facts_cluster,
)
from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason
from headgate.model.publish import Ticket
from support.gateway.fakes import NOW_MS
from support.gateway.room import REFUSED, UNKNOWN, Room

UNCHANGED = Outcome(OutcomeName.UNCHANGED, 3, 17, b"d1")
PUBLISHED = Outcome(OutcomeName.PUBLISHED, 3, 17, b"d1", records=1)


def facts_of(draw: float = 0.0) -> Facts:
    return Facts(lambda: NOW_MS, lambda: draw)


def rows_in(value: bytes) -> list[dict[str, Any]]:
    """Read by the standard library alone: one dict a fact, its key as bytes."""
    found = json.loads(value)
    topic, one_in = found.pop("topic"), found.pop("one_in")
    if "key_base64" in found:
        coded = found.pop("key_base64")
        keys = [None if key is None else b64decode(key) for key in coded]
    else:
        keys = [None if key is None else key.encode() for key in found["key"]]
    found["key"] = keys
    assert set(found) == COLUMNS.keys() - {"key_base64"}
    return [
        {"topic": topic, "one_in": one_in, **dict(zip(found, row, strict=True))}
        for row in zip(*found.values(), strict=True)
    ]


def told(facts: Facts) -> list[dict[str, Any]]:
    return [row for columns in facts.collect(True) for row in rows_in(columns.encoded())]


def test_a_fact_says_all_but_the_payload() -> None:
    facts = facts_of()
    rejected = Outcome(OutcomeName.REJECTED, key=None, failure=Failure(Reason.MISSING_KEY, "none"))
    facts.take("billing", "deals", 1, [UNCHANGED, PUBLISHED, rejected], [812, 5, 40])
    common = {"topic": "deals", "one_in": 1, "at_ms": NOW_MS, "producer": "billing", "events": 1}
    assert told(facts) == [
        {**common, "outcome": "unchanged", "reason": None, "partition": 3, "offset": 17,
         "key": b"d1", "bytes": 812},
        {**common, "outcome": "rejected", "reason": "missing_key", "partition": None,
         "offset": None, "key": None, "bytes": 40},
    ]  # fmt: skip
    assert told(facts) == []


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        (PUBLISHED, None),
        (Outcome(OutcomeName.HELD, key=b"k"), None),
        (Outcome(OutcomeName.UNKNOWN, key=b"k", failure=UNKNOWN), None),
        (Outcome(OutcomeName.PUBLISHED, 0, 1, b"k", records=0), "unchanged"),
        (Outcome(OutcomeName.UNCHANGED, 0, 1, b"k"), "unchanged"),
        (Outcome(OutcomeName.DUPLICATE, 0, 1, b"k"), "duplicate"),
        (Outcome(OutcomeName.SUPERSEDED, 0, 1, b"k"), "superseded"),
        (Outcome(OutcomeName.REJECTED, key=b"k", failure=REFUSED), "rejected"),
    ],
)
def test_what_got_a_record_or_may_get_one_is_not_told(outcome: Outcome, name: str | None) -> None:
    facts = facts_of()
    facts.take("p", "deals", 1, [outcome], [1])
    assert [row["outcome"] for row in told(facts)] == ([] if name is None else [name])


_rows = st.tuples(
    st.none() | st.binary(max_size=40) | st.binary(min_size=1000, max_size=1100),
    st.integers(0, 10**9),
    st.integers(-1, 100),
    st.integers(-1, 2**60),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=10),
)


@given(st.lists(_rows, max_size=30))
def test_any_key_and_producer_comes_back_as_it_went(rows: list[Any]) -> None:
    facts = facts_of()
    for key, size, partition, offset, producer in rows:
        facts.take(
            producer, "t", 1, [Outcome(OutcomeName.UNCHANGED, partition, offset, key)], [size]
        )
    found = told(facts)
    assert len(found) == len(rows)
    for row, (key, size, partition, offset, producer) in zip(found, rows, strict=True):
        if key is not None and len(key) > KEY_MAX_BYTES:
            assert row["key"].startswith(key[:KEY_MAX_BYTES])
            assert len(row["key"]) == KEY_MAX_BYTES + 16
        else:
            assert row["key"] == key
        assert row["bytes"] == size
        assert row["partition"] == (None if partition < 0 else partition)
        assert row["offset"] == (None if offset < 0 else offset)
        assert row["producer"] == producer


def test_long_keys_that_begin_alike_stay_different() -> None:
    facts = facts_of()
    for end in (b"a", b"b"):
        key = b"x" * KEY_MAX_BYTES + end
        facts.take("p", "t", 1, [Outcome(OutcomeName.UNCHANGED, 0, 0, key)], [1])
    one, other = told(facts)
    assert one["key"] != other["key"]


def test_the_encoding_is_the_documented_one() -> None:
    facts = facts_of()
    facts.take("p", "t", 2, [UNCHANGED], [9])
    facts.take("p", "b", 1, [Outcome(OutcomeName.UNCHANGED, 0, 0, b"\xff")], [9])
    text, binary = (columns.encoded() for columns in facts.collect(True))
    assert text == (
        b'{"topic":"t","one_in":2,"at_ms":[1700000000000],"producer":["p"],'
        b'"outcome":["unchanged"],"reason":[null],"partition":[3],"offset":[17],"bytes":[9],'
        b'"events":[1],"key":["d1"]}'
    )
    assert b'"key_base64":["/w=="]' in binary
    assert b'"key":' not in binary


def test_a_record_is_full_at_a_number_of_facts_and_topics_do_not_mix() -> None:
    woken = list[int]()
    facts = Facts(lambda: NOW_MS, lambda: 0.0, lambda: woken.append(facts.waiting))
    outcomes = [UNCHANGED] * (FACTS_A_RECORD + 10)
    facts.take("p", "a", 1, [UNCHANGED], [1])
    facts.take("p", "b", 1, outcomes, [1] * len(outcomes))
    assert woken == [FACTS_A_RECORD + 1]
    assert [(one.topic, len(one.keys)) for one in facts.collect(False)] == [("b", FACTS_A_RECORD)]
    rest = facts.collect(True)
    assert [(one.topic, len(one.keys)) for one in rest] == [("a", 1), ("b", 10)]
    assert facts.waiting == 0


def test_what_waits_is_bounded_and_the_rest_is_counted() -> None:
    facts = facts_of()
    outcomes, sizes = [UNCHANGED, PUBLISHED] * 1000, [1] * 2000
    assert FACTS_A_RECORD < MAX_WAITING
    for _ in range(MAX_WAITING // 1000 + 3):
        facts.take("p", "deals", 1, outcomes, sizes)
    facts.coalesced("p", "other", OutcomeName.SUPERSEDED, b"k", 7, 1)
    assert facts.waiting == MAX_WAITING
    assert facts.take_dropped() == {"deals": 3000, "other": 1}
    assert facts.take_dropped() == {}
    assert sum(len(one.keys) for one in facts.collect(True)) == MAX_WAITING
    facts.take("p", "deals", 1, outcomes, sizes)
    assert facts.take_dropped() == {}


def test_records_are_cut_until_they_fit() -> None:
    columns = Columns("t", 1)
    facts = facts_of()
    for number in range(300):
        key = b"%03d" % number + b"\x01" * 900
        facts.take("p", "t", 1, [Outcome(OutcomeName.UNCHANGED, 0, number, key)], [1])
    (columns,) = facts.collect(True)
    found = encode_records(columns, 100_000)
    assert all(len(one.value) <= 100_000 for one in found)
    assert sum(one.count for one in found) == 300
    rows = [row for one in found for row in rows_in(one.value)]
    assert [row["offset"] for row in rows] == list(range(300))
    assert len(encode_records(columns, 10)) == 300  # one fact is written whatever the limit


def test_a_sample_is_unbiased_and_says_what_each_fact_stands_for() -> None:
    facts = Facts(lambda: NOW_MS, random.Random(7).random)
    total, one_in, found = 200_000, 50, 0
    for _ in range(total // 1000):
        facts.take("p", "t", one_in, [UNCHANGED] * 1000, [1] * 1000)
        rows = told(facts)
        assert all(row["one_in"] == one_in for row in rows)
        found += len(rows)
    # binomial: mean 4,000, standard deviation 63
    assert abs(found - total / one_in) < 4 * 63


def test_what_was_coalesced_is_told_as_sums_and_never_sampled() -> None:
    facts = facts_of()
    facts.take("p", "t", 1_000_000, [UNCHANGED], [1])
    facts.coalesced("p", "t", OutcomeName.SUPERSEDED, b"k", 1012, 800_000)
    (row,) = [row for row in told(facts) if row["outcome"] == "superseded"]
    assert (row["one_in"], row["events"], row["bytes"], row["key"]) == (1, 1012, 800_000, b"k")


def test_the_cluster_of_facts_is_the_first_that_takes_events() -> None:
    assert facts_cluster({"b": "backfill", "x": "ingest", "a": "ingest"}) == "x"
    assert facts_cluster({"b": "backfill"}) is None


# ---- where outcomes end


def kinds(facts: Facts) -> list[tuple[str, str | None, str]]:
    return [(row["outcome"], row["reason"], row["topic"]) for row in told(facts)]


def test_every_kind_of_end_is_told_once() -> None:
    facts = facts_of()
    room = Room(facts=facts)
    body = b'[{"id": "a"}, {"id": "b"}, {"no": 1}]'
    room.post("deals", body)
    room.run()
    assert kinds(facts) == [("rejected", "missing_key", "deals")]
    room.post("deals", body)
    room.run()
    assert kinds(facts) == [
        ("unchanged", None, "deals"),
        ("unchanged", None, "deals"),
        ("rejected", "missing_key", "deals"),
    ]


def test_an_event_that_shares_the_record_of_an_equal_one_is_told() -> None:
    facts = facts_of()
    room = Room(facts=facts)
    for _ in range(3):
        room.post("deals", b'{"id": "a"}')
    room.run()
    assert kinds(facts) == [("unchanged", None, "deals")] * 2


def test_a_request_that_is_refused_as_a_whole_is_told() -> None:
    facts = facts_of()
    room = Room(facts=facts)
    room.post("deals", b"{")
    assert kinds(facts) == [("rejected", "malformed", "deals")]
    room.quotas.failure = Failure(Reason.QUOTA_EXCEEDED, "slower", retry_after_s=1)
    room.post("deals", b'{"id": "a"}')
    assert kinds(facts) == [("rejected", "quota_exceeded", "deals")]
    room.pipeline.report_refused("p", "deals", Failure(Reason.FORBIDDEN, "no"))
    assert kinds(facts) == [("rejected", "forbidden", "deals")]
    refused = Ticket("deals", "p", "req-1", 0.0, {}, b"{}")
    assert room.admission.take_bytes("p", 2) is None
    room.pipeline.refuse(refused, Failure(Reason.IDEMPOTENCY_CONFLICT, "still running"))
    assert kinds(facts) == [("rejected", "idempotency_conflict", "deals")]


def test_what_was_answered_unknown_is_told_when_it_ends_after_all() -> None:
    facts = facts_of()
    room = Room(facts=facts)
    ticket = room.post("clicks", b"1")
    room.lanes.hand_over(ticket.publishes[0].record.partition, 1)
    room.pipeline.expire(ticket)
    assert ticket.done
    assert kinds(facts) == []
    room.lanes.fail(ticket.publishes[0].record.partition, REFUSED)
    assert kinds(facts) == [("rejected", "broker_refused", "clicks")]


def test_topics_that_do_not_ask_tell_nothing() -> None:
    facts = facts_of()
    room = Room(facts=facts)
    room.post("orders", b'[{"id": "a"}, {"no": 1}]')
    room.post("orders", b"{")
    room.post("nowhere", b"{")
    room.pipeline.report_refused("p", "orders", Failure(Reason.FORBIDDEN, "no"))
    room.run()
    assert kinds(facts) == []
