"""Every page in Chromium at three sizes: fits, runs, and has no violation of WCAG 2.2 AA.

What they look like is kept in build/browser.
"""

from __future__ import annotations

import re

import pytest

from support.console import audits, world
from support.console.browser import CHROMIUM, browser, page, served
from support.console.replays import ReplaysInMemory, some_replays

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Debian: apt-get install chromium")

LISTS = ("", "/producers", "/topics", "/groups", "/replays", "/replays/new", "/audits")
DETAILS = ("/producers/producer-0003", "/topics/topic-001", "/topics/topic-001?heat=bytes",
           "/topics/topic-001/partitions/1", "/groups/billing", "/replays/new?topic=topic-001",
           "/audits/topic-001", "/audits/topic-001?partitions=48", "/audits/topic-001/compare",
           "/audits?since=2026-01-31T05:00:00.000Z", "/audits/new/compare",
           "/producers/nobody")  # fmt: skip
SIZES = ((360, "light"), (800, "dark"), (1440, "light"))


def named(path: str) -> str:
    return re.sub("[/?=:]", "-", path.strip("/")) or "overview"


@pytest.mark.parametrize(("width", "scheme"), SIZES)
@pytest.mark.parametrize("much", [False, True], ids=["nothing", "much"])
async def test_every_page_fits_runs_and_is_accessible(much: bool, width: int, scheme: str) -> None:
    instance = await world.busy() if much else world.empty()
    replays = await some_replays("topic-001") if much else ReplaysInMemory()
    paths = LISTS
    if much:
        instance.audited = {**audits.many(60), **audits.some()}
        first = next(iter(replays.registry)).id
        paths = (*LISTS, *DETAILS, f"/replays/{first}")
    wrong: dict[str, object] = {}
    async with (
        browser() as chromium,
        served(instance, replays.services()) as server,
        page(chromium, server, width, color_scheme=scheme) as seen,
    ):
        for path in paths:
            await seen.open(path)
            name = "replay" if path.startswith("/replays/0") else named(path)
            await seen.picture(f"{'much' if much else 'nothing'}-{name}-{width}-{scheme}")
            wrong[path] = await seen.violations()
            if overflow := await seen.overflow():
                wrong[f"{path} is too wide"] = overflow
        expected = 1 if much else 0  # the page of nobody is a 404, which the browser says
        errors = [one for one in seen.errors if "404" not in one]
        assert len(seen.errors) - len(errors) <= expected
        assert errors == []
    assert {path: found for path, found in wrong.items() if found} == {}
