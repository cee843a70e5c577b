"""Log injection: whatever a client sends, its request has one line and forges no other."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from headgate.config.settings import LogSettings
from headgate.http.request_log import RequestLog
from headgate.metrics import logs
from support.gateway.data_plane_world import data_port

FORGED = "2026-11-25T00:00:00.000Z INFO    all is well"
ENDS = {
    "LF": "\n", "CR": "\r", "CRLF": "\r\n", "NUL": "\0", "escape": "\x1b[2K\x1b[1A", "bell": "\a",
    "next line": "\x85", "line separator": "\u2028", "paragraph separator": "\u2029",
    "vertical tab": "\v", "form feed": "\f", "file separator": "\x1c", "backspace": "\b" * 40,
    "right to left": "\u202e", "two blanks": "  ",
}  # fmt: skip


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = before
    root.setLevel(level)


def written_lines(stream: io.StringIO, text_format: str = "text") -> list[str]:
    """Text as any reader may cut it. Readers of JSON cut at LF, and there are more line ends."""
    text = stream.getvalue()
    return text.splitlines() if text_format == "text" else text.removesuffix("\n").split("\n")


@pytest.mark.parametrize("text_format", ["text", "json"])
@pytest.mark.parametrize("end", ENDS)
async def test_log_injection_by_names(root: logging.Logger, text_format: str, end: str) -> None:
    """By a topic, a path and a producer's name, on the ways that a request may take."""
    stream = io.StringIO()
    logs.configure(LogSettings(format="text" if text_format == "text" else "json"), stream)
    evil = f"x{ENDS[end]}{FORGED}  status=200"
    async with data_port(request_log=RequestLog()) as port:
        await port.post(quote(evil, safe=""), b"{}", {"Content-Type": "application/json"})
        await port.post(quote(evil, safe=""), b"{}", {"Origin": "http://gateway"})
        await port.ask("GET", "/" + quote(evil, safe=""))
        producer = {"Headgate-Producer": b"x\xc2\x85y"}
        await port.post("orders", b"{}", {"Content-Type": "application/json", **producer})
    lines = written_lines(stream, text_format)
    assert len(lines) == 4
    for line in lines:
        assert line.isprintable() or text_format == "json", line
        if text_format == "json":
            assert json.loads(line)["status"] in (400, 404)
        else:
            assert re.match(r"\S+Z INFO    [a-z_]+: ", line), line
            assert re.findall(r"  status=(\d+)", outside(line)) in (["404"], ["400"])


def outside(line: str) -> str:
    """What is in no quotes."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', "", line)


def test_log_injection_by_what_an_error_says(root: logging.Logger) -> None:
    """A traceback quotes what was read; none of its lines looks like a line of the log."""
    stream = io.StringIO()
    logs.configure(LogSettings(format="text"), stream)
    try:
        int(f"\n{FORGED}\r{FORGED}\x1b[1A")
    except ValueError:
        logging.getLogger("headgate.x").exception("broken\n%s", FORGED)
    first, *others = written_lines(stream)
    assert first.endswith("broken\\n" + FORGED.replace("    ", r" \x20 \x20"))
    assert others
    assert all(line.startswith("    ") for line in others)
    assert stream.getvalue().replace("\n", "").isprintable()
