"""The console's pages of consumer groups: what the monitor says, and why if it says nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from headgate.admin.app import management_app
from headgate.admin.instance import Monitored
from support.console import world
from support.console.world import ConsoleInstance
from support.gateway.admin_world import KeptInMemory, admin_of

Client = TestClient[Any, Any]


@asynccontextmanager
async def opened(instance: ConsoleInstance) -> AsyncIterator[Client]:
    app = management_app(admin_of(instance, KeptInMemory()))
    async with TestClient(TestServer(app)) as client:
        yield client


async def text_of(client: Client, path: str) -> str:
    answer = await client.get(f"/console{path}")
    assert answer.status == 200, await answer.text()
    return await answer.text()


async def test_a_stuck_group_is_seen_as_a_picture() -> None:
    async with opened(await world.small()) as client:
        text = await text_of(client, "/groups/billing")
    assert 'class="back"' in text
    assert "c1-app (c1)" in text
    assert "lag 3 (broker), 1 (client)" in text


async def test_a_group_of_ten_thousand_partitions_has_a_small_page() -> None:
    instance = await world.small()
    (group,) = instance.groups["/v1/groups/billing"]["on"]
    one, fall = group["partitions"][0], group["recent_regressions"][0]
    group["partitions"] = [{**one, "partition": each, "lag": each} for each in range(10_000)]
    group["recent_regressions"] = [fall] * 300
    async with opened(instance) as client:
        text = await text_of(client, "/groups/billing")
    assert len(text) < 150_000, "it is sent again whenever something has changed"
    assert "The worst 100 of 10,000" in text
    assert "The newest 50 of 300" in text
    assert "orders 9999<" in text
    assert "orders 9899<" not in text


async def test_a_partitions_page_has_the_groups_that_read_it() -> None:
    async with opened(await world.small()) as client:
        text = await text_of(client, "/topics/orders/partitions/0")
        assert '<a href="/console/groups/billing">billing</a>' in text
        assert ">REWIND<" in text
        assert "c2-app at /10.0.0.1 (c2)" in text
        assert "topic=orders&amp;partition=0" in text
        assert "At most the worst" not in text
        text = await text_of(client, "/topics/orders/partitions/9")
        assert "No group with members or commits reads this partition." in text
    async with opened(await world.busy(1, 2, 1)) as client:
        assert "billing" not in await text_of(client, "/topics/topic-001/partitions/0")
    instance = await world.small()
    instance.groups["/v1/groups/billing"]["on"] *= 50
    async with opened(instance) as client:
        assert "At most the worst 50 are" in await text_of(client, "/topics/orders/partitions/0")
    instance.groups = {}
    async with opened(instance) as client:
        text = await text_of(client, "/topics/orders/partitions/0")
    assert "start `headgate monitor`" in text
    assert "Share of bytes" in text


async def test_a_monitor_that_answers_nonsense_is_named() -> None:
    instance = await world.small()
    instance.groups = {"/v1/groups": ["no", "object"]}
    async with opened(instance) as client:
        assert "is not a headgate monitor" in await text_of(client, "/groups")


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, b'{"reason": "unauthenticated", "detail": "no such token"}',
         ("unauthenticated", "no such token", "log in with a token")),
        (403, b'{"reason": "forbidden", "detail": "needs the role view"}',
         ("forbidden", "needs the role view", "give yourself the role view")),
        (503, b'{"reason": "issuer_unavailable", "detail": "no keys"}',
         ("issuer_unavailable", "no keys", "auth.jwt_jwks_url has to answer")),
        (503, b"<h1>Unavailable</h1>",
         ("overloaded", "the monitor answered 503", "load the page again")),
        (403, b"<h1>Forbidden</h1>",
         ("forbidden", "the monitor answered 403", "give yourself the role view")),
        (502, b"<h1>Bad Gateway</h1>",
         ("internal", "the monitor answered 502", "what runs at monitor.url")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/groups", "/groups/billing"])
async def test_why_a_monitor_refuses_is_shown(
    path: str, status: int, body: bytes, said: tuple[str, str, str]
) -> None:
    instance = await world.small()
    instance.refused = Monitored(status, "application/problem+json", body)
    async with opened(instance) as client:
        text = await text_of(client, path)
    assert f"<b>{said[0]}</b>: {said[1]}. " in text
    assert said[2] in text, "what to do"
    assert "Start it" not in text, "it runs"


async def test_a_group_s_page_begins_with_the_diagnosis_and_has_commits_in_time_order() -> None:
    instance = await world.small()
    (group,) = instance.groups["/v1/groups/billing"]["on"]
    commit = group["partitions"][0]["commits"][0]
    group["partitions"] = [
        {**group["partitions"][0], "partition": number, "commits": [
            {**commit, "at": f"2026-01-31T12:0{minute}:00.000Z", "offset": 1_000 + minute}
            for minute in (6 + number, 2 + number)
        ]}
        for number in (0, 1)
    ]  # fmt: skip
    async with opened(instance) as client:
        text = await text_of(client, "/groups/billing")
    sentence = "Partition 0 of orders went back from offset 7 to 5 at "
    assert text.index("<h1>") < text.index(sentence) < text.index("Likely causes")
    assert text.index("Likely causes") < text.index("What to do") < text.index("<h3>Partitions")
    assert text.index('action="/console/groups/billing/pause"') < text.index(sentence)
    assert 'aria-label="Lag of billing over time"' in text
    stream = text[text.index("<h3>Commit stream") :]
    assert [stream.index(f">{offset:,}<") for offset in (1_007, 1_006, 1_003, 1_002)] == sorted(
        stream.index(f">{1_000 + minute:,}<") for minute in (2, 3, 6, 7)
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"members": 0}, "It has no members that are known"),
        ({"members": 2, "deaf_members": 0}, "Its 2 members stop reading within a second."),
        ({"members": 2, "deaf_members": 1}, "1 of its 2 members will go on reading: they do not"),
    ],
)
async def test_the_question_before_a_pause_has_the_group_and_the_effect(
    changes: dict[str, int], said: str
) -> None:
    instance = await world.small()
    (group,) = instance.groups["/v1/groups/billing"]["on"]
    group |= changes
    async with opened(instance) as client:
        text = await text_of(client, "/groups/billing")
    assert f'data-ask="Pause the group billing? {said}' in text


async def test_the_list_has_paused_groups_and_pauses_that_are_not_obeyed() -> None:
    instance = await world.small()
    first, second, third = instance.groups["/v1/groups"]["groups"][:3]
    first["paused"], first["not_obeyed"] = True, "not obeyed: 1 member does not use it"
    second["paused"], third["unread_topics"] = True, ["b"]
    async with opened(instance) as client:
        text = await text_of(client, "/groups")
    assert '<span class="state bad">pause not obeyed</span>' in text
    assert text.count('<span class="state warn">paused</span>') == 1
    assert '<span class="state warn">no member reads b</span>' in text


async def test_a_monitor_of_an_earlier_release_has_pages_too() -> None:
    instance = await world.small()
    (group,) = instance.groups["/v1/groups/billing"]["on"]
    for row in (group, *instance.groups["/v1/groups"]["groups"]):
        for name in ("diagnosis", "lag_over_time", "paused", "not_obeyed", "deaf_members"):
            row.pop(name, None)
    async with opened(instance) as client:
        assert "REWIND" in await text_of(client, "/groups/billing")
        assert "REWIND" in await text_of(client, "/groups")
