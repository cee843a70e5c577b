"""Takes the pictures of the console in docs/images: `make screenshots` runs it.

Starts the local stack with its sample traffic in a temporary folder, lets it run, and photographs
the console's first page in Chromium, light and dark. Needs `make setup` and Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, Literal

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / folder) for folder in ("gateway", "tests")]

from support.console.browser import browser, page  # noqa: E402

IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1440, 900
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@contextmanager
def demo(state: str) -> Iterator[dict[str, Any]]:
    """Run `headgate dev --demo` as a process; yield its addresses."""
    command = [sys.executable, "-m", "headgate", "dev", "--demo", "--json", "--state", state]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/gateway{os.pathsep}{ROOT}/spark"}
    with Popen(command, cwd=ROOT, env=environment, stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=120)


async def photograph(management_url: str, folder: Path) -> None:
    """Write one picture for each colour scheme."""
    async with browser() as chromium, page(chromium, management_url, WIDTH) as seen:
        for scheme in SCHEMES:
            await seen.open()
            await seen.page.emulate_media(color_scheme=scheme)
            await seen.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
            await asyncio.sleep(1)  # transitions of colours
            await seen.page.screenshot(path=folder / f"console-{scheme}.png")


def main() -> None:
    """Read the arguments, run the stack, write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=240, help="how long the sample traffic runs")
    parser.add_argument("--to", type=Path, default=IMAGES, metavar="DIR")
    arguments = parser.parse_args()

    async def let_it_run(management_url: str) -> None:
        await asyncio.sleep(arguments.seconds)
        await photograph(management_url, arguments.to)

    arguments.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as state, demo(state) as addresses:
        asyncio.run(let_it_run(addresses["management"]))


if __name__ == "__main__":
    main()
