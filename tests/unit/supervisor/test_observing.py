"""Polls become entries: who went, who came back, after how long; and nothing else does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from headgate.core.installation import (
    MAX_TEXT,
    MEANINGS,
    Happening,
    Kind,
    as_document,
    entry_of,
    read_entry,
)
from headgate.core.suppression import AWAY, ON, QUARANTINE
from headgate.supervisor.installation_log import Observer, Poll, span

Found = tuple[str, str, Mapping[str, Any]]
WELL = {"kafka main": (True, "connected"), "redis": (True, "connected")}
AWAY_NOW = {**WELL, "redis": (False, "no connection")}
START_MS = 1_790_000_000_000


def polls(*seen: Poll, step_ms: int = 1000) -> list[list[Happening]]:
    """What each poll makes known, a second after the other."""
    observer = Observer()
    return [observer.see(START_MS + number * step_ms, one) for number, one in enumerate(seen)]


def poll(
    dependencies: Mapping[str, tuple[bool, str]] = WELL,
    servers: Mapping[str, str] | None = None,
    suppression: Mapping[str, str] | None = None,
    spooled: int | None = 0,
    rebuilds: Mapping[tuple[str, ...], float] | None = None,
) -> Poll:
    return Poll(dependencies, servers or {}, suppression or {}, spooled, rebuilds or {})


def all_of(made: list[list[Happening]]) -> list[Found]:
    return [(one.kind, one.text, one.details) for some in made for one in some]


def test_an_outage_has_a_begin_and_an_end_and_how_long_it_was() -> None:
    made = polls(poll(), poll(), *[poll(AWAY_NOW)] * 5, poll(), poll())
    assert all_of(made) == [
        (Kind.OUTAGE_BEGAN, "redis: no connection", {}),
        (Kind.OUTAGE_ENDED, "redis recovered after 5 s", {"seconds": 5.0}),
    ]
    began, ended = (one for some in made for one in some)
    assert (began.at_ms, ended.at_ms) == (START_MS + 2000, START_MS + 7000)
    assert began.subject == ended.subject == "redis"


def test_one_poll_alone_is_no_outage() -> None:
    assert all_of(polls(poll(), poll(), poll(AWAY_NOW), poll(), poll())) == []


def test_what_is_well_from_the_start_is_nothing_new_and_what_is_not_is() -> None:
    assert all_of(polls(poll(), poll())) == []
    assert [kind for kind, _, _ in all_of(polls(*[poll(AWAY_NOW)] * 3))] == [Kind.OUTAGE_BEGAN]


def test_an_outage_goes_on_while_no_worker_reports_it() -> None:
    gone = poll({"kafka main": (True, "connected")})
    made = polls(poll(), poll(), poll(AWAY_NOW), poll(AWAY_NOW), gone, gone, poll(), poll())
    assert [kind for kind, _, _ in all_of(made)] == [Kind.OUTAGE_BEGAN, Kind.OUTAGE_ENDED]


def test_a_clock_that_is_set_back_makes_no_negative_duration() -> None:
    made = polls(poll(), poll(), *[poll(AWAY_NOW)] * 2, poll(), poll(), step_ms=-1000)
    assert all_of(made)[-1][2] == {"seconds": 0.0}


def test_the_spool_stops_and_takes_events_again() -> None:
    full = {"spool": (False, "spool.max_bytes is reached")}
    fine = {"spool": (True, "empty")}
    made = all_of(polls(poll(fine), poll(fine), poll(full), poll(full), poll(fine), poll(fine)))
    assert made == [
        (Kind.SPOOL_STOPPED, "the spool refuses events: spool.max_bytes is reached", {}),
        (Kind.SPOOL_RESUMED, "the spool accepts events again after 2 s", {"seconds": 2.0}),
    ]


def test_spooling_begins_and_ends_and_is_not_judged_while_a_worker_is_missing() -> None:
    some, none, unknown = poll(spooled=7), poll(), poll(spooled=None)
    made = polls(none, none, some, some, unknown, unknown, some, none, none)
    assert all_of(made) == [
        (Kind.SPOOL_BEGAN, "events are spooled on disk", {"events": 7}),
        (Kind.SPOOL_ENDED, "empty again after 5 s", {"seconds": 5.0}),
    ]


def test_another_redis_process_is_a_failover() -> None:
    one, other = poll(servers={"redis": "a:1 run x"}), poll(servers={"redis": "b:2 run y"})
    nobody = poll()
    made = polls(one, one, nobody, other, other)
    assert all_of(made) == [
        (
            Kind.REDIS_CHANGED,
            "redis: b:2 run y answers instead of a:1 run x",
            {"before": "a:1 run x", "after": "b:2 run y"},
        )
    ]


def test_topics_that_change_together_are_one_entry() -> None:
    names = [f"t{number:02}" for number in range(30)]
    on, quarantine = (poll(suppression=dict.fromkeys(names, one)) for one in (ON, QUARANTINE))
    away = poll(suppression=dict.fromkeys(names, AWAY))
    made = all_of(polls(quarantine, quarantine, on, on, away, away, on, on))
    kinds = [Kind.QUARANTINE_BEGAN, Kind.SUPPRESSION_ON, Kind.SUPPRESSION_AWAY, Kind.SUPPRESSION_ON]
    assert [kind for kind, _, _ in made] == kinds
    assert made[0][2] == {"topics": names[:20], "count": 30}
    assert made[1][2] == {"topics": names[:20], "count": 30, "seconds": 2.0}
    assert "and others: all events are published without comparison (quarantine)" in made[0][1]


def test_a_topic_that_was_on_all_the_time_is_not_told_of() -> None:
    assert all_of(polls(*[poll(suppression={"orders": ON})] * 3)) == []


def test_producers_that_were_made_again_are_counted_by_reason() -> None:
    def at(count: int) -> Poll:
        return poll(rebuilds={("main", "fenced"): count})

    made = all_of(polls(poll(), at(1), at(1), at(3)))
    assert [details for _, _, details in made] == [
        {"reason": "fenced", "count": 1},
        {"reason": "fenced", "count": 2},
    ]


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (59_400, "59 s"), (60_000, "1 min 0 s"),
     (3_599_000, "59 min 59 s"), (8_040_000, "2 h 14 min")],
)  # fmt: skip
def test_spans_are_for_people(ms: int, shown: str) -> None:
    assert span(ms) == shown


def test_every_kind_has_a_level_and_a_sentence() -> None:
    assert set(MEANINGS) == set(Kind)
    assert all(meaning.about.endswith(".") for meaning in MEANINGS.values())


def test_an_entry_is_read_as_it_was_written_and_nothing_else_is() -> None:
    what = Happening(Kind.RELOAD_REFUSED, "configuration", "x" * 5000, {"options": ["a"]})
    entry = entry_of(7, START_MS, what)
    assert len(entry.text) == MAX_TEXT + len("...")
    document = as_document(entry)
    assert read_entry(document) == entry
    for name in document:
        assert read_entry({**document, name: None}) is None, name
    assert read_entry([document]) is None
    assert read_entry({**document, "kind": "of a later release"}) is None


def test_topics_that_refuse_events_without_redis_are_an_entry_of_their_own() -> None:
    on, away = (
        poll(suppression={"deals": one, "orders": one})._replace(refusing={"orders"})
        for one in (ON, AWAY)
    )
    assert [text for _, text, _ in all_of(polls(on, on, away, away))] == [
        "deals: all events are published without comparison: Redis does not answer",
        'orders: events are refused (redis_loss = "refuse"): Redis does not answer',
    ]
