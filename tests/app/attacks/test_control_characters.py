"""Control characters of clients reach no page, no line of the log and no terminal as they are."""

from __future__ import annotations

import io
import json
import logging
from contextlib import nullcontext

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer

from headgate.commands.output import say, show_json, show_table
from headgate.core.http.reply import problem, reply
from headgate.core.installation.entry import Happening, Kind
from headgate.core.outcome import Failure, Name, Outcome, Reason
from headgate.core.terminal.progress import ProgressLine, Step
from headgate.core.terminal.style import Style
from headgate.core.terminal.table import Column
from headgate.edge.console.rendering import shown
from headgate.edge.management.routes import management_app
from headgate.supervisor.installation_log import InstallationLog
from headgate.telemetry.logs import JsonLine, TextLine
from support.console import world
from support.gateway.admin_world import admin_of
from support.gateway.data_plane_world import data_port

CODES = [
    *range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0x2028, 0x2029,
    *range(0x202A, 0x202F), *range(0x2066, 0x206A),
]  # fmt: skip
EVIL = "key" + "".join(map(chr, CODES))


def raw(text: str) -> list[str]:
    return sorted({hex(ord(one)) for one in text if ord(one) in CODES})


def test_control_characters_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"group {EVIL}")
    show_json({"group": EVIL})
    show_table([Column("group")], [[EVIL]])
    assert raw(capsys.readouterr().out) == []


@pytest.mark.parametrize("is_terminal", [True, False])
def test_control_characters_in_progress(is_terminal: bool) -> None:
    out = io.StringIO()
    style = Style(is_terminal=is_terminal, has_colours=False)
    line = ProgressLine(out, style, lambda: 1.0, lambda: 400, nullcontext(), "mirror: ")
    line.show(Step(EVIL, 1, 2, "records"))
    line.say(EVIL)
    assert raw(out.getvalue().replace("\r\x1b[K", "")) == []


@pytest.mark.parametrize("line", [JsonLine(), TextLine()], ids=["json", "text"])
def test_control_characters_in_the_log(line: logging.Formatter) -> None:
    given = {"msg": f"reading {EVIL}", "topic": EVIL, "levelname": "INFO", "name": "headgate.x"}
    written = line.format(logging.makeLogRecord(given))
    assert raw(written) == []
    if isinstance(line, JsonLine):
        assert json.loads(written)["topic"] == EVIL, "whoever reads JSON has the text itself"


async def test_control_characters_on_pages() -> None:
    """The console's, and JSON of the control plane."""
    log = InstallationLog(None)
    log.note(Happening(Kind.WORKER_DIED, "worker 0", f"it died {EVIL}"))
    app = management_app(admin_of(world.empty(), log=log))
    async with TestClient(TestServer(app)) as client:
        for path in ("/console", "/console/log", "/v1/log"):
            answer = await client.get(path)
            text = await answer.text()
            assert "it died key" in text
            assert raw(text) == []


def test_values_of_form_fields_come_back_as_they_were() -> None:
    fields = '<input name="reason" value="a\r\x1bb"><textarea name="keys">a\r\nb</textarea>'
    assert shown(f"{fields}<p>a\x1bb</p>") == f"{fields}<p>a\\u001bb</p>"


@pytest.mark.parametrize("is_batch", [True, False])
def test_control_characters_in_answers(is_batch: bool) -> None:
    failure = Failure(Reason.MALFORMED, EVIL)
    outcomes = [
        Outcome(Name.PUBLISHED, 4, 7, EVIL.encode(), EVIL, None, 1),
        Outcome(Name.REJECTED, key=EVIL.encode(), event_id=EVIL, failure=failure),
    ]
    bodies = [problem(failure, "id").body]
    given = [outcomes] if is_batch else [[one] for one in outcomes]
    bodies += [reply("t", one, is_batch, False, "id").body for one in given]
    for body in bodies:
        assert raw(body.decode()) == []
        assert EVIL in walked(orjson.loads(body)), "whoever reads JSON has the text itself"


def walked(found: object) -> list[object]:
    if isinstance(found, dict):
        return [one for value in found.values() for one in walked(value)]
    if isinstance(found, list):
        return [one for value in found for one in walked(value)]
    return [found]


async def test_control_characters_in_the_answer_to_a_key_and_a_topic() -> None:
    as_key = json.dumps({"id": EVIL}).encode()
    async with data_port() as port:
        for topic in ("orders", "x%1B%5B2J%C2%85%E2%80%AE"):
            answer = await port.post(topic, as_key, {"Content-Type": "application/json"})
            assert raw(str(answer)) == []
