"""Every page in Chromium at three sizes: fits, runs, and has no violation of WCAG 2.2 AA.

`make test-full` keeps what they look like in build/browser.
"""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.async_api import Browser

from support.console.browser import CHROMIUM, EVERYTHING, PLACED, page, served
from support.console.states import SITUATIONS, routes

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Debian: apt-get install chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]

SIZES: tuple[tuple[int, Literal["light", "dark"]], ...] = (
    (360, "light"), (800, "dark"), (1440, "light"),
)  # fmt: skip
ENDS = (SIZES[0], SIZES[-1])  # where there is less on a page
# Every width has the same on it, elsewhere. Colours and sizes differ, and the most is
# there where there is much.
RULES = {
    False: {SIZES[-1][0]: EVERYTHING},
    True: {SIZES[0][0]: PLACED, SIZES[1][0]: EVERYTHING, SIZES[-1][0]: EVERYTHING},
}
# The same pages, asked for otherwise.
VARIANTS = ("/topics/{topic}?heat=bytes", "/replays/new?topic={topic}", "/producers/nobody",
            "/log?level=error", "/audits/{topic}?partitions=48",
            "/audits?since=2026-01-31T05:00:00.000Z", "/configuration?all=1")  # fmt: skip
FOUND_OR_NOT = (200, 404, 503)  # a page that says why is a page, too


def paths(situation: str) -> list[str]:
    """Every page that the console serves, with the variable parts of its address.

    In an empty gateway pages of one thing all say the same: there they are those of idle things.
    """
    found = (*routes("GET"), *VARIANTS)
    only = {"nothing": False, "idle": True}.get(situation)
    return [path for path in found if only in (None, "{" in path)]


def named(path: str) -> str:
    plain = "".join(one if one.isalnum() else "-" for one in path).strip("-")
    return plain.replace("--", "-") or "overview"


@pytest.mark.parametrize(  # idle consoles show fewer rows than those with `much`
    "situation", ["nothing", "much", "gone", pytest.param("idle", marks=pytest.mark.full)]
)
async def test_every_page_fits_runs_and_is_accessible(chromium: Browser, situation: str) -> None:
    behind = await SITUATIONS[situation]()
    wrong: dict[str, object] = {}
    async with (
        served(behind.instance, behind.services, behind.store, behind.log) as address,
        page(chromium, address, SIZES[0][0]) as seen,
    ):
        for path in paths(situation):
            status = await seen.open(path.format_map(behind.parts))
            if status not in FOUND_OR_NOT:
                wrong[f"{path} answers"] = status
            for width, scheme in SIZES if situation == "much" else ENDS:
                await seen.resize(width, scheme)
                await seen.picture(f"{situation}-{named(path)}-{width}-{scheme}")
                if rules := RULES[situation == "much"].get(width):
                    wrong[f"{path} at {width}"] = await seen.violations(rules)
                if overflow := await seen.overflow():
                    wrong[f"{path} is too wide at {width}"] = overflow
        wrong["errors"] = [one for one in seen.errors if "status of" not in one]
    assert {path: found for path, found in wrong.items() if found} == {}
