"""Lists of the control plane: every row once, page by page, whatever comes and goes meanwhile."""

from __future__ import annotations

import random
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from headgate.admin.app import management_app
from headgate.config.settings import ProducerSettings, Settings
from headgate.http.pages import Paging, names_of, page_of, paging
from headgate.model.outcome import Refused
from headgate.model.policy import TopicPolicy
from headgate.monitor.rules import LagState
from headgate.monitor.views import RowPlace, row_place
from support.gateway.admin_world import FakeInstance, admin_of

NAMES = [f"p{number:03}" for number in range(250)]


def world() -> web.Application:
    producers = {name: ProducerSettings() for name in NAMES}
    topics = tuple(TopicPolicy(name, "main") for name in NAMES)
    return management_app(admin_of(FakeInstance(Settings(producers=producers, topics=topics))))


@pytest.mark.parametrize(("what", "column"), [("producers", "producer"), ("topics", "topic")])
async def test_every_row_comes_once(what: str, column: str) -> None:
    async with TestClient(TestServer(world())) as client:
        for limit, sizes in ((None, [100, 100, 50]), (125, [125, 125]), (1000, [250])):
            pages, after = [], ""
            while not pages or after:
                query = {"limit": str(limit)} if limit else {}
                query |= {"after": after} if after else {}
                answer = await client.get(f"/v1/{what}", params=query)
                assert answer.status == 200
                page: dict[str, Any] = await answer.json()
                pages.append([row[column] for row in page[what]])
                after = page["next"]
            assert [len(rows) for rows in pages] == sizes
            assert [name for rows in pages for name in rows] == NAMES


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/v1/producers?lmit=3", 'no parameter "lmit". Did you mean "limit"?'),
        ("/v1/topics?frobnicate=1", "It may have limit, after, pretty."),
        ("/v1/log?kinds=started", 'Did you mean "kind"?'),
        ("/v1/config?sektion=http", 'Did you mean "section"?'),
        ("/v1/config/findings?aftr=1", 'Did you mean "after"?'),
        ("/v1/audits?topik=a", 'Did you mean "topic"?'),
        ("/v1/audits/latest?topik=a", 'Did you mean "topic"?'),
        ("/v1/audits/comparison?topic=a&befor=1", 'Did you mean "before"?'),
        ("/v1/replays?stat=running", 'Did you mean "state"?'),
        ("/v1/snapshots?topic=a", "It may have pretty."),
        ("/v1/changes?limit=3", "It may have pretty."),
    ],
)
async def test_a_misspelled_parameter_is_malformed(path: str, part: str) -> None:
    async with TestClient(TestServer(world())) as client:
        answer = await client.get(path)
        problem = await answer.json()
        assert (answer.status, problem["reason"]) == (400, "malformed")
        assert part in problem["detail"]


async def test_an_unknown_producer_is_no_page_that_is_missing() -> None:
    async with TestClient(TestServer(world())) as client:
        problem = await (await client.get("/v1/producers/nobody")).json()
        assert (problem["reason"], problem["title"]) == ("not_found", "Not found")
        assert "no producer 'nobody' is configured" in problem["detail"]


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x", "", "1.5", "²", "9" * 5000])
def test_a_limit_that_is_none_is_malformed(limit: str) -> None:
    with pytest.raises(Refused, match="1 to 1000"):
        paging(make_mocked_request("GET", f"/v1/producers?limit={limit}"))


@given(st.sets(st.text(max_size=3)), st.sets(st.text(max_size=3)), st.integers(1, 5))
def test_rows_that_come_and_go_move_no_others(stay: set[str], come: set[str], limit: int) -> None:
    found, after, chance = [], None, random.Random(limit)
    while True:
        there = stay | {name for name in come if chance.random() < 0.5}
        page, after = names_of(sorted(there), Paging(limit, after))
        found += page
        if after is None:
            break
    assert [name for name in found if name in stay] == sorted(stay)
    assert len(found) == len(set(found))


rows = st.lists(
    st.fixed_dictionaries(
        {
            "state": st.sampled_from(LagState),
            "lag": st.integers(0, 3),
            "group": st.text(max_size=2),
            "cluster": st.sampled_from(["main", "backfill-2"]),
        }
    ),
    unique_by=lambda row: (row["group"], row["cluster"]),
)


@given(rows, st.integers(1, 5))
def test_groups_come_worst_first_and_once(every: list[dict[str, Any]], limit: int) -> None:
    every.sort(key=row_place)
    found, after = [], None
    while True:
        asked = Paging(limit, after)
        page, after = page_of(every, asked, row_place, RowPlace.read, RowPlace.text)
        found += page
        if after is None:
            break
    assert found == every
    assert sorted(every, key=lambda row: -list(LagState).index(row["state"])) == every


@pytest.mark.parametrize("after", ["", "billing", "1.2", "x.1.main/a", "1.-1.main/a", "1.1.a"])
def test_a_place_that_is_none_is_malformed(after: str) -> None:
    with pytest.raises(Refused, match="page before"):
        page_of([], Paging(1, after), row_place, RowPlace.read, RowPlace.text)
