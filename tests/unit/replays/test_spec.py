"""Specs of replays: what is understood, and how mistakes are named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.replays.spec import (
    Bound,
    FieldError,
    Rate,
    RecordFilter,
    ReplayMode,
    Spec,
    read_filter,
    read_spec,
)

NOW_MS = 1_800_000_000_000
LEAST: dict[str, Any] = {
    "name": "again", "topic": "orders", "from": {"relative": "-2h"}, "deliver": {"mode": "topic"},
}  # fmt: skip


def read(**changes: Any) -> Spec:
    return read_spec({**LEAST, **changes}, NOW_MS)


def test_the_least_that_can_be_asked() -> None:
    spec = read()
    assert spec.start == Bound("timestamp", time_ms=NOW_MS - 7_200_000)
    assert (spec.end, spec.partitions, spec.rate) == (Bound("now"), None, Rate())
    assert spec.only.is_empty
    assert spec.deliver.mode is ReplayMode.TOPIC


@pytest.mark.parametrize("given", [None, {"relative": "now"}])
def test_to_left_out_means_now_where_there_is_an_end(given: Any) -> None:
    assert read(to=given).end == Bound("now")
    assert read(to=given, deliver={"mode": "seek"}).end == Bound("now")
    assert read(deliver={"mode": "group", "group": "g"}).end is None
    assert read(**{"from": {"relative": "now"}}).start == Bound("now")


def test_all_that_can_be_asked() -> None:
    spec = read(
        partitions=[3, 1, 3],
        to={"offsets": {"1": 7, "3": 9}},
        filter={"producers": ["checkout"], "equals": {"/status": "paid"}},
        deliver={"mode": "topic", "ttl_s": 60},
        rate={"bytes_per_s": 1_000_000, "records_per_s": 5},
        allow_cold=True,
        dry_run=True,
    )
    assert spec.partitions == (1, 3)
    assert spec.end == Bound("offsets", offsets={1: 7, 3: 9})
    assert spec.rate == Rate(5, 1_000_000)
    assert spec.allow_cold
    assert spec.dry_run


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": 7}, "name"),
        ({"topic": "a b"}, "topic"),
        ({"topik": "orders"}, "topik"),
        ({"partitions": []}, "partitions"),
        ({"partitions": [-1]}, "partitions"),
        ({"partitions": [True]}, "partitions"),
        ({"from": {}}, "from"),
        ({"from": {"relative": "-2h", "timestamp": 5}}, "from"),
        ({"from": {"relative": "2h"}}, "from.relative"),
        ({"from": {"timestamp": "2026-01-31T12:00:00"}}, "from.timestamp"),
        ({"from": {"timestamp": -5}}, "from.timestamp"),
        ({"from": {"offsets": {"x": 5}}}, "from.offsets"),
        ({"from": {"offsets": {"00": 5}}}, "from.offsets"),
        ({"from": {"offsets": {"0": 5.5}}}, "from.offsets.0"),
        ({"from": {"offsets": {"0": 1}}, "partitions": [0, 1]}, "from.offsets"),
        ({"to": {"offsets": {"0": 1}}, "partitions": [0, 1]}, "to.offsets"),
        ({"to": {"snapshot": ""}}, "to.snapshot"),
        ({"to": {"relative": "-3h"}}, "to"),
        ({"from": {"timestamp": 9}, "to": {"timestamp": 8}}, "to"),
        ({"filter": {"key": []}}, "filter.key"),
        ({"filter": {"keys": "one"}}, "filter.keys"),
        ({"filter": {"keys_base64": ["?"]}}, "filter.keys_base64"),
        ({"filter": {"headers": []}}, "filter.headers"),
        ({"filter": {"equals": {"status": 1}}}, "filter.equals"),
        ({"deliver": {"mode": "stream"}}, "deliver.mode"),
        ({"deliver": {"mode": ["topic"]}}, "deliver.mode"),
        ({"deliver": {"mode": "topic", "group": "x"}}, "deliver.group"),
        ({"deliver": {"mode": "group"}}, "deliver.group"),
        ({"deliver": {"mode": "topic", "ttl_s": 0}}, "deliver.ttl_s"),
        ({"deliver": {"mode": "seek"}, "filter": {"keys": ["a"]}}, "filter"),
        ({"deliver": {"mode": "seek"}, "allow_cold": True}, "allow_cold"),
        ({"deliver": {"mode": "seek"}, "rate": {"bytes_per_s": 5}}, "rate"),
        ({"deliver": {"mode": "group", "group": "g"}, "to": {"timestamp": 5}}, "to"),
        ({"rate": {"bytes_per_s": 0}}, "rate.bytes_per_s"),
        ({"allow_cold": "yes"}, "allow_cold"),
    ],
)
def test_mistakes_are_named_by_their_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as refused:
        read(**changes)
    assert refused.value.field == field


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda some: (
        st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=5), some, max_size=3)
    ),
    max_leaves=8,
)


@given(st.sampled_from([*LEAST, "partitions", "to", "filter", "rate", "allow_cold"]), json_values)
def test_nothing_but_a_field_error_comes_of_any_json(name: str, value: Any) -> None:
    try:
        read(**{name: value})
    except FieldError:
        return


def test_a_filter_takes_what_meets_all_conditions() -> None:
    only = read_filter(
        {
            "keys": ["1", "2"],
            "keys_base64": ["AP8="],
            "producers": ["checkout"],
            "headers": {"kind": ["a", "b"]},
            "equals": {"/total": 5, "/lines/0/paid": True},
        }
    )
    headers = [("hg-producer", b"checkout"), ("kind", b"c"), ("kind", b"b")]
    value = b'{"total": 5.0, "lines": [{"paid": true}]}'
    assert only.takes(b"1", value, headers)
    assert only.takes(b"\x00\xff", value, headers)
    assert not only.takes(None, value, headers)
    assert not only.takes(b"3", value, headers)
    assert not only.takes(b"1", value, headers[1:])
    assert not only.takes(b"1", value, headers[:2])
    assert not only.takes(b"1", None, headers)
    assert not only.takes(b"1", b"no json", headers)
    assert not only.takes(b"1", b'{"total": 5, "lines": [{"paid": 1}]}', headers)
    assert not only.takes(b"1", b'{"total": 5, "lines": []}', headers)


@pytest.mark.parametrize(
    ("pointer", "wanted", "value", "is_taken"),
    [
        ("", {"a": 1}, b'{"a": 1}', True),
        ("/a", None, b'{"a": null}', True),
        ("/a", None, b"{}", False),
        ("/a", 1, b'{"a": true}', False),
        ("/a~1b", "x", b'{"a/b": "x"}', True),
        ("/0", "x", b'["x"]', True),
        ("/00", "x", b'["x"]', False),
        ("/a", {"x": [1, 2.0]}, b'{"a": {"x": [1.0, 2]}}', True),
    ],
)
def test_json_is_equal_by_value(pointer: str, wanted: Any, value: bytes, is_taken: bool) -> None:
    assert read_filter({"equals": {pointer: wanted}}).takes(b"k", value, ()) is is_taken


def test_empty_record_filter_takes_every_record() -> None:
    assert RecordFilter().takes(None, None, ())
