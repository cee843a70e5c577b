"""/docs in headless Chromium: it shows every operation, under a policy that nothing offends."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer

from headgate.admin.app import management_app
from headgate.config.settings import HttpSettings, Settings
from headgate.devstack.ports import LOOPBACK
from headgate.http.openapi.document import operations
from support.gateway.admin_world import FakeInstance, admin_of
from support.gateway.data_plane_world import data_port

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Debian: apt-get install chromium")


def browse(folder: Path, address: str) -> subprocess.CompletedProcess[str]:
    """The page after its scripts have run; what they said is on standard error."""
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"]
    command += ["--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}"]
    # no name is resolved, so nothing can come from elsewhere
    command += [f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {LOOPBACK}"]
    command += ["--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)


@pytest.mark.parametrize("port", ["data", "management"])
async def test_every_operation_of_the_port_is_shown(port: str, tmp_path: Path) -> None:
    app = management_app(admin_of(FakeInstance(Settings())))
    async with data_port() as data, TestServer(app, host=LOOPBACK) as management:
        number = data.port if port == "data" else management.port
        done = await asyncio.to_thread(browse, tmp_path, f"http://{LOOPBACK}:{number}/docs")
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert said == []
    wanted = [one for one in operations(HttpSettings()) if one.port in (port, "both")]
    assert done.stdout.count('class="opblock opblock-') == len(wanted)
    missing = [one.path for one in wanted if f'data-path="{one.path}"' not in done.stdout]
    assert missing == []
