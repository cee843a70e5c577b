"""The page in headless Chromium: it opens without network, and its charts have a size."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from headgate_spark.audit.page import page
from headgate_spark.audit.result import document
from support.scenarios import skew_world

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Debian: apt-get install chromium")


def browse(file: Path, *arguments: str) -> str:
    """What Chromium prints for a local page."""
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"]
    command += ["--disable-dev-shm-usage", f"--user-data-dir={file.parent / 'profile'}"]
    # nothing is resolved: what the page lacked could not come from elsewhere
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", *arguments, file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout


def test_the_page_opens_in_a_browser(tmp_path: Path) -> None:
    figures = [skew_world.figures_of(skew_world.data_bomb())]
    file, picture = tmp_path / "index.html", tmp_path / "page.png"
    probe = (
        "<script>document.title=[...document.querySelectorAll('svg')]"
        ".filter(one=>one.getBBox().width>200&&one.getBBox().height>40).length</script>"
    )
    text = page(document(figures, 0), figures)
    file.write_text(text.replace("</body>", probe + "</body>"))
    shown = browse(file, "--dump-dom", f"--screenshot={picture}", "--window-size=1200,2000")
    assert "<title>3</title>" in shown
    assert "2342565" in shown
    head = picture.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    assert struct.unpack(">II", head[16:24]) == (1200, 2000)


def test_nothing_overflows_on_a_narrow_screen(tmp_path: Path) -> None:
    """A browser's window has a least width, so the page is laid out in 400 px of a wider one."""
    figures = [skew_world.figures_of(skew_world.data_bomb())]
    probe = (
        "<script>document.documentElement.style.width='400px';document.title="
        "[...document.querySelectorAll('body *')].filter(one=>!one.closest('.wide table')&&"
        "!one.closest('svg *')&&one.getBoundingClientRect().right>400.5)"
        ".map(one=>one.tagName+' '+one.textContent.slice(0,40)).join('; ')||'fits'</script>"
    )
    file = tmp_path / "index.html"
    file.write_text(page(document(figures, 0), figures).replace("</body>", probe + "</body>"))
    shown = browse(file, "--dump-dom", "--window-size=800,2000")
    assert "<title>fits</title>" in shown, shown[:2000]
