"""The run of names: what its requests carry, and its table."""

from typing import Any

import orjson

from cases.identity import CASES, Stand, plan
from report import identity_table
from wire import requests

VALUES = [b'{"id":"a"}', b'{"id":"b"}', b'{"id":"c"}']
STAND = Stand("h:1", "http://h:1", 1, ("kafka=2",))


def test_each_request_has_a_key_of_its_own() -> None:
    first, second = requests(VALUES, "ndjson", 2, "h:1", ["/p"], "key", first=10)
    assert b"\r\nIdempotency-Key: 0192f5aa-0000-7000-8000-00000000000a\r\n" in first.data
    assert b"\r\nIdempotency-Key: 0192f5aa-0000-7000-8000-00000000000b\r\n" in second.data


def test_each_event_has_an_id_of_its_own() -> None:
    singles = list(requests(VALUES, "single", 2, "h:1", ["/p"], "id", first=10))
    for number, request in enumerate(singles, 10):
        assert b"\r\nHeadgate-Event-Id: 0192f5aa-0000-7000-8000-%012x\r\n" % number in request.data
    batches = list(requests(VALUES, "envelope", 2, "h:1", ["/p"], "id", first=10))
    events = [
        event
        for one in batches
        for event in orjson.loads(one.data.partition(b"\r\n\r\n")[2])["events"]
    ]
    assert [event["value"] for event in events] == [orjson.loads(value) for value in VALUES]
    assert len({event["id"] for event in events}) == 3


def test_plain_envelopes_have_no_ids() -> None:
    (batch,) = requests(VALUES[:1], "envelope", 2, "h:1", ["/p"])
    assert batch.data.endswith(b'\r\n\r\n{"events":[{"value":{"id":"a"}}]}')
    assert b"vnd.headgate.batch+json" in batch.data


def test_the_plain_case_of_an_encoding_is_what_the_others_are_compared_with() -> None:
    seen = set()
    for case in CASES:
        assert (case.encoding in seen) == (case.identity != "none")
        seen.add(case.encoding)


def test_runs_do_not_share_names() -> None:
    plans = [plan(case, STAND, 1.0, 100 * place) for place, case in enumerate(CASES)]
    ids = [next(iter(one.requests())).data for one in plans if one.identity == "id"]
    assert len(set(ids)) == len(ids) == 2
    assert {one.topic for one in plans if one.identity == "id"} == {"identity-deduped"}


def run_of(cost: float) -> dict[str, Any]:
    return {
        "cpu_us_per_event": {"target": cost, "redis": 2.0},
        "events_per_s": 1_000,
        "latency_ms": {"p50": 1.0, "p99": 2.0},
        "foreign_cores": 0.1,
        "log": "exact",
    }


def test_the_table_says_what_the_names_cost() -> None:
    plain, keyed, named = CASES[:3]
    costs = {plain: [10.0, 20.0], keyed: [14.0, 30.0], named: [20.0, 40.0]}
    lines = identity_table({case: [*map(run_of, some)] for case, some in costs.items()})
    first, second, third = lines.splitlines()[2:]
    assert "| 15.0 | - | - |" in first
    assert "| 22.0 | 1.45 (1.40..1.50) | <= 1.5 met |" in second
    assert "| 30.0 | 2.00 (2.00..2.00) | <= 1.5 MISSED |" in third
