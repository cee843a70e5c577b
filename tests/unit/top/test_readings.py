"""`headgate top`: rates between polls, and the order of rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate.commands.terminal import PLAIN, Style, width
from headgate.top.readings import (
    SPAN_S,
    Dependency,
    Flow,
    GroupsPage,
    Health,
    OddPageError,
    ProducerPage,
    Reading,
    Skew,
    TopicPage,
    View,
    Workers,
    checked,
    flows,
    group_cells,
    groups_read,
    growth,
    kept,
    producers_read,
    topics_read,
)
from headgate.top.session import Options, Session
from headgate.top.views import (
    SORTS,
    Room,
    Shown,
    Sort,
    Trouble,
    frame,
    listing,
    rows_in,
    sorted_names,
    total,
)
from support.terminal.management import group

HEALTH = Health("ready", {}, Workers(1, 1))
NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


def pair(topic: str, events: int, **ends: int) -> dict[str, Any]:
    size = 100 * events
    received = {"events": events, "bytes": size}
    return {"topic": topic, "received_total": received, "events_total": ends,
            "bytes_saved_total": 100 * ends.get("unchanged", 0)}  # fmt: skip


def producer(name: str, events: int, **ends: int) -> ProducerPage:
    row = pair("orders", events, **ends)
    page = {"producer": name, "events_per_s": 7.0, "bytes_per_s": 70.0, "last_seen": None,
            **row, "topics": [row]}  # fmt: skip
    return checked(page, ProducerPage)


def groups(*rows: dict[str, Any], **more: Any) -> tuple[GroupsPage, dict[str, Any]]:
    page = {"groups": rows, "regressions": [], "clusters": [], **more}
    return checked(page, GroupsPage), page


def readings(*polls: list[ProducerPage], step_s: float = 2.0) -> list[Reading]:
    return [producers_read(number * step_s, HEALTH, rows) for number, rows in enumerate(polls)]


def test_rates_are_between_the_polls() -> None:
    found = flows(readings(
        [producer("shop", 10, published=10)],
        [producer("shop", 30, published=12, unchanged=15, **{"rejected:too_large": 3})],
    ))  # fmt: skip
    assert found["shop"] == Flow(10.0, 1000.0, 750.0, 1.5, 0.75)


def test_what_is_held_is_not_counted_twice() -> None:
    found = flows(readings(
        [producer("shop", 0)],
        [producer("shop", 10, held=10, superseded=7, unchanged=1, published=2)],
    ))  # fmt: skip
    assert found["shop"].events_per_s == 5.0
    assert found["shop"].unchanged == pytest.approx(0.1)


def test_before_the_second_poll_the_gateway_s_own_rates_are_shown() -> None:
    assert flows(readings([producer("shop", 10)])) == {"shop": Flow(7.0, 70.0)}


def test_a_gateway_that_was_started_again_gives_no_negative_rate() -> None:
    found = flows(
        readings([producer("shop", 10, published=10)], [producer("shop", 3, published=3)])
    )
    assert found["shop"] == Flow()


def test_a_producer_that_is_new_began_at_nothing() -> None:
    found = flows(readings([], [producer("shop", 4, published=4)]))
    assert found["shop"].events_per_s == 2.0


def test_rates_are_over_ten_seconds_at_most() -> None:
    found: list[Reading] = []
    for poll in readings(*([producer("shop", 0)] for _ in range(30))):
        found = kept(found, poll)
        assert found[-1].at_s - found[0].at_s <= SPAN_S
    assert len(found) == SPAN_S / 2 + 1
    slow = kept(found, found[-1]._replace(at_s=1000.0))
    assert len(slow) == 2  # polls that are further apart are compared all the same


def test_topics_are_what_all_producers_post_to_them() -> None:
    topic = TopicPage("orders", 0.0, 0.0, Skew(judged=False), None)
    polls = [
        topics_read(at_s, HEALTH, [topic], [producer("a", count), producer("b", 2 * count)])
        for at_s, count in ((0.0, 10), (1.0, 20))
    ]
    assert flows(polls)["orders"].events_per_s == 30.0


THREE = readings(
    [producer("a", 0), producer("b", 0), producer("c", 0)],
    [
        producer("a", 10, published=10),
        producer("b", 40, unchanged=40),
        producer("c", 20, published=10, rejected=10),
        producer("d", 0),
    ],
)


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        (Sort.RATE, "bcad"), (Sort.BYTES, "bcad"), (Sort.REJECTS, "cabd"),
        (Sort.UNCHANGED, "bacd"), (Sort.NAME, "abcd"),
    ],
)  # fmt: skip
def test_the_largest_come_first(sort: Sort, names: str) -> None:
    assert sorted_names(THREE, sort) == list(names)
    rows = listing(THREE, sort, NOW).rows
    assert [row[0].text for row in rows] == list(names)


def test_total_adds_rates_and_weighs_shares() -> None:
    found = total(THREE)
    assert (found.events_per_s, found.refused_per_s) == (35.0, 5.0)
    assert found.unchanged == pytest.approx(40 / 70)


def test_groups_are_as_the_monitor_has_them_or_sorted() -> None:
    worst = [group("x", "STOP", 10), group("a", "OK", 50), group("b", "OK", 0, regressions=2)]
    polls = [
        groups_read(0.0, HEALTH, [groups(*({**one, "lag": 10} for one in worst))]),
        groups_read(2.0, HEALTH, [groups(*worst[:1]), groups(*worst[1:])]),
    ]
    assert growth(polls) == {"main/x": 0.0, "main/a": 20.0, "main/b": -5.0}
    order = {
        sort: "".join(name[-1] for name in sorted_names(polls, sort)) for sort in SORTS[View.GROUPS]
    }
    assert order == {Sort.WORST: "xab", Sort.RATE: "axb", Sort.REJECTS: "bax", Sort.NAME: "abx"}


def shown(found: list[Reading], **more: Any) -> Shown:
    view = found[-1].view if found else View.PRODUCERS
    return Shown("http://h:9090", view, Sort.RATE, 2.0, found, NOW, None, 0)._replace(**more)


@pytest.mark.parametrize("room", [Room(80, 24), Room(20, 6), Room(1, 1), Room(200, 5)])
@pytest.mark.parametrize("style", [PLAIN, Style(is_terminal=True)])
def test_a_frame_fits_the_screen(room: Room, style: Style) -> None:
    many = readings([], [producer(f"p{number}" * 9, number) for number in range(40)])
    lines = frame(shown(many), room, style, NOW, 0.0)
    assert len(lines) == room.rows
    assert all(width(line) <= room.columns for line in lines)


def test_the_last_line_has_the_keys_in_eighty_columns() -> None:
    lines = frame(shown(THREE), Room(80, 24), PLAIN, NOW, 0.0)
    assert lines[-1].startswith("q quit p producers t topics g groups r rate b bytes x rejects")
    assert lines[-1].endswith(" n name")
    assert "35 events/s" in lines[1]


@pytest.mark.parametrize(
    ("loss_s", "remark"),
    [
        (None, ""),
        (604_799.0, ""),
        (86_000.0, "loses records in 23 h 53 min"),
        (600.0, "loses records in 10 min"),
        (9.0, "loses records in 9 s"),
    ],
)
def test_a_loss_that_is_near_is_a_remark(loss_s: float | None, remark: str) -> None:
    group = {
        "state": "OK", "group": "g", "cluster": "c", "lag": 1, "heat": "hot", "members": 1,
        "stuck_commit": False, "regressions": 0, "idle_members": 0,
        "probation": {"admitted": True}, "loss_in_s": loss_s,
    }  # fmt: skip
    assert group_cells(group)[-1].text == remark


def test_how_long_nobody_has_answered_is_said_above_what_was_known() -> None:
    trouble = Trouble("it does not answer", 100.0, NOW - timedelta(seconds=42))
    lines = frame(shown(THREE, trouble=trouble), Room(80, 24), PLAIN, NOW, 142.0)
    assert lines[1] == "since 11:59:18 (42 s): it does not answer"
    assert lines[4].startswith("b ")


def test_what_is_missing_is_in_the_second_line() -> None:
    dependencies = {"redis": Dependency(ok=False, detail="away"), "kafka": Dependency(ok=True)}
    health = Health("degraded", dependencies, Workers(1, 2))
    lines = frame(shown([producers_read(0.0, health, [])]), Room(80, 24), PLAIN, NOW, 0.0)
    assert lines[1].startswith("degraded (redis: away; 1 of 2 workers), 0 producers")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"producer": None}, "$.producer"), ({"last_seen": "lately"}, "$.last_seen"),
        ({"last_seen": "2026-01-31T12:00:00"}, "$.last_seen"), ({"topics": 3}, "$.topics"),
        ({"received_total": {"events": -1, "bytes": 0}}, "$.received_total.events"),
        ({"events_total": {"published": 10**400}}, "$.events_total"),
    ],
)  # fmt: skip
def test_an_odd_page_is_refused_where_it_is_read(change: dict[str, Any], where: str) -> None:
    page = {**pair("orders", 1), "producer": "shop", "events_per_s": 1, "bytes_per_s": 1,
            "last_seen": "2026-01-31T12:00:00Z", "topics": []}  # fmt: skip
    assert checked(page, ProducerPage).producer == "shop"
    with pytest.raises(OddPageError, match=where.replace("$", "[$]")):
        checked(page | change, ProducerPage)


def test_every_row_can_be_scrolled_to_also_above_notes() -> None:
    cluster = {
        "cluster": "main", "ok": False, "detail": "away", "every_commit_is_seen": True,
        "why_not": None, "partitions": {}, "rogue_readers": [],
    }  # fmt: skip
    rows = [group(f"g{number:02}") for number in range(40)]
    session, room = Session(Options("http://h:9090", View.GROUPS)), Room(80, 24)
    page = groups(*rows, clusters=[cluster] * 4)
    session.take(View.GROUPS, groups_read(0.0, HEALTH, [page]))
    for _ in range(40):
        session.press("j", rows_in(session.shown, room))
    lines = frame(session.shown, room, PLAIN, NOW, 0.0)
    assert any("g39" in line for line in lines)
    assert sum("cluster main: away" in line for line in lines) == 4
