"""Control characters of clients reach no page, no line of the log and no terminal as they are, and
no text of a client begins a line of its own.

A table of places that take text from outside, and one of places that write for people. The last
test fails if a module writes to a terminal, or makes JSON, that neither table knows.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import quote

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer

import headgate_spark.cli
from headgate import cli
from headgate.admin.app import management_app
from headgate.admin.console.rendering import shown
from headgate.commands.output import say, show_facts, show_json, show_table
from headgate.commands.terminal import Column, ProgressLine, Step, Style
from headgate.config.settings import LogSettings
from headgate.devstack.session import sayer
from headgate.http.request_log import RequestLog
from headgate.metrics import logs
from headgate.metrics.catalogue import GROUP_METRICS
from headgate.metrics.exposition import render, render_openmetrics
from headgate.metrics.health import Dependency, Readiness
from headgate.metrics.logs import JsonLine, TextLine
from headgate.metrics.snapshot import Snapshot
from headgate.model.installation import Kind, LogEntry, NewEntry
from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason
from headgate.model.reply import problem, reply
from headgate.model.text import escaped, one_line
from headgate.supervisor.installation_log import InstallationLog, LogFile
from headgate_spark.audit.collect import KEYS, LOAD
from headgate_spark.audit.job import write_files
from headgate_spark.audit.result import document
from headgate_spark.job.command_line import format_task_log
from headgate_spark.job.exposition import Metric, exposed
from support.console import world
from support.console.pages import opened
from support.console.replays import ReplaysInMemory, some_replays
from support.gateway.admin_world import admin_of
from support.gateway.data_plane_world import DataPort, data_port
from support.scenarios import skew_world

CODES = [
    *range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0x2028, 0x2029,
    *range(0x202A, 0x202F), *range(0x2066, 0x206A),
]  # fmt: skip
FORGED = "headgate: all is well"
EVIL = f"key{''.join(map(chr, CODES))}\n{FORGED}"
NAMED = EVIL.replace("\0", "")  # of a file: Python takes no NUL in one
FIELD = re.compile(r'(?<=value=")[^"]*(?=")')  # of a form: it comes back as it was given
REPOSITORY = Path(__file__).parents[3]


def raw(text: str) -> list[str]:
    return sorted({hex(ord(one)) for one in text if ord(one) in CODES})


def assert_harmless(text: str, mark: str = "key") -> None:
    """The text came through, without a control character, and began no line."""
    assert mark in text
    assert raw(text) == []
    assert not [line for line in text.splitlines() if line.startswith(FORGED)]


# ---- what is written for people


def _progress(out: io.StringIO, *, is_terminal: bool) -> ProgressLine:
    style = Style(is_terminal=is_terminal, has_colours=False)
    return ProgressLine(out, style, lambda: 1.0, lambda: 400, nullcontext(), "mirror: ")


def _progressing(*, is_terminal: bool) -> str:
    out = io.StringIO()
    line = _progress(out, is_terminal=is_terminal)
    line.show(Step(EVIL, 1, 2, "records"))
    line.show(Step("topic", 1, 2, "records", EVIL))
    line.say(EVIL)
    return out.getvalue().replace("\r\x1b[K", "")


def _dev_line() -> str:
    out = io.StringIO()
    sayer(out)(f"gateway ended by itself with 1\n{EVIL}\nthe end")
    return out.getvalue()


def _log_line(form: logging.Formatter) -> str:
    try:
        int(EVIL)
    except ValueError as error:
        about = (ValueError, error, error.__traceback__)
    fields = {"topic": EVIL, "producer": EVIL, "group": EVIL, "request_id": EVIL}
    given = {"msg": f"reading {EVIL}", "levelname": "INFO", "name": "headgate.x", **fields}
    return form.format(logging.makeLogRecord({**given, "exc_info": about}))


def _gauges() -> Snapshot:
    metric = next(one for one in GROUP_METRICS if "group" in one.labels)
    return Snapshot({}, {metric.name: {tuple(EVIL for _ in metric.labels): 1.0}})


def _ready() -> bytes:
    return Readiness(False, (Dependency(EVIL, False, True, EVIL),)).reply().body


def _answer(*, is_batch: bool) -> str:
    failure = Failure(Reason.MALFORMED, EVIL)
    outcomes = [
        Outcome(OutcomeName.PUBLISHED, 4, 7, EVIL.encode(), EVIL, None, 1),
        Outcome(OutcomeName.REJECTED, key=EVIL.encode(), event_id=EVIL, failure=failure),
    ]
    given = [outcomes] if is_batch else [[one] for one in outcomes]
    bodies = [problem(failure, "id").body]
    bodies += [reply("t", one, is_batch, False, "id").body for one in given]
    for body in bodies:
        assert EVIL in walked(orjson.loads(body)), "whoever reads JSON has the text itself"
    return b"\n".join(bodies).decode()


SINKS: dict[str, Callable[[], str]] = {
    "progress on a terminal": lambda: _progressing(is_terminal=True),
    "progress in a file": lambda: _progressing(is_terminal=False),
    "headgate dev": _dev_line,
    "log as JSON": lambda: _log_line(JsonLine()),
    "log as text": lambda: _log_line(TextLine()),
    "metrics": lambda: render(_gauges(), 0.0).decode(),
    "OpenMetrics": lambda: render_openmetrics(_gauges(), 0.0).decode(),
    "textfile": lambda: exposed([Metric("x", "gauge", "X.", [({"topic": EVIL}, 1)])]),
    "an answer to an event": lambda: _answer(is_batch=False),
    "an answer to a batch": lambda: _answer(is_batch=True),
    "/ready": lambda: _ready().decode(),
}


@pytest.mark.parametrize("sink", SINKS)
def test_no_control_character_is_written(sink: str) -> None:
    assert_harmless(SINKS[sink]())


COMMANDS: dict[str, Callable[[], object]] = {
    "say": lambda: say(f"group {EVIL}"),
    "show_json": lambda: show_json({"group": EVIL}),
    "show_table": lambda: show_table([Column("group")], [[EVIL]]),
    "show_facts": lambda: show_facts([("group", EVIL), (EVIL, "")]),
    "headgate config": lambda: cli.main(["config", "--config", NAMED]),
    "headgate token": lambda: cli.main(["token", EVIL]),
    "headgate-spark mirror": lambda: headgate_spark.cli.main(["mirror", "--config", NAMED]),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_control_character_comes_to_a_terminal(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    COMMANDS[command]()
    captured = capsys.readouterr()
    assert_harmless(captured.out + captured.err)


def test_no_control_character_is_in_the_log_of_a_spark_task(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Spark writes it to the executor's standard error."""
    log = logging.Logger("headgate_spark.mirror.copier")  # without handlers, as in a task
    format_task_log()
    try:
        int(EVIL)
    except ValueError:
        log.exception("%s partition %d", EVIL, 3)
    finally:
        assert logging.lastResort is not None
        logging.lastResort.setFormatter(None)
    assert_harmless(capsys.readouterr().err)


def test_no_control_character_is_in_the_files_of_an_audit(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    for name in (LOAD, KEYS):
        (folder / name).mkdir()
    figures = [skew_world.figures_of(skew_world.data_bomb())]
    text = json.dumps(document(figures, 1_769_860_800_000))
    result = json.loads(text.replace("deal-admin", json.dumps(EVIL)[1:-1]))
    assert EVIL in walked(result), "the audit names producers"
    write_files(result, figures, folder, tmp_path, 0)
    for name in ("audit.json", "index.html"):  # in a page, an end of a line is a blank
        assert raw((tmp_path / name).read_text(encoding="utf-8")) == []
    assert EVIL in walked(json.loads((tmp_path / "audit.json").read_text(encoding="utf-8")))


def test_no_control_character_is_in_the_installation_log(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "log.jsonl", 1 << 20)
    entry = LogEntry(1, 0, Kind.WORKER_DIED, EVIL, EVIL, {})
    assert file.append([entry])
    assert_harmless((tmp_path / "log.jsonl").read_text(encoding="utf-8"))
    assert file.read() == [entry]


# ---- pages


async def _evil_replays() -> ReplaysInMemory:
    """End a replay under a name that any writer of the registry's topic can choose."""
    replays = await some_replays()
    for replay in replays.registry:
        assert replay.spec is not None
        asked = replay.spec["asked"]
        assert isinstance(asked, dict)
        replay.spec = {**replay.spec, "by": EVIL, "asked": {**asked, "name": EVIL}}
        replay.status = {**replay.status, "reason": EVIL}
    return replays


PAGES = (
    "/console", "/console/producers", "/console/topics", "/console/groups", "/console/replays",
    "/console/replays/new", "/console/audits", "/console/producers/NAME", "/console/topics/orders",
    "/console/groups/NAME", "/console/audits/orders", "/console/replays/new?topic=NAME",
    "/console/log", "/v1/log", "/v1/producers", "/v1/producers/NAME", "/v1/topics",
    "/v1/topics/orders", "/v1/replays", "/v1/audits", "/v1/audits/orders", "/v1/pauses/NAME",
    "/v1/replays/NAME", "/v1/producers/none/NAME", "/NAME", "/metrics",
)  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
async def test_no_control_character_is_on_a_page(path: str) -> None:
    """Names of producers, groups and clients, keys, details of refusals, replays' names."""
    log = InstallationLog(None)
    log.note(NewEntry(Kind.WORKER_DIED, "worker 0", f"it died {EVIL}"))
    services = (await _evil_replays()).services()
    app = management_app(admin_of(await world.hostile(EVIL), services=services, log=log))
    async with TestClient(TestServer(app)) as client:
        answer = await client.get(path.replace("NAME", quote(EVIL, safe="")))
        text = await answer.text()
    if answer.content_type == "text/html":  # there an end of a line is a blank
        text = FIELD.sub("", text)
    else:
        assert not [line for line in text.splitlines() if line.startswith(FORGED)]
    assert raw(text) == []


async def test_no_control_character_is_in_events_of_a_replay() -> None:
    """A line end in the data would end the event, too."""
    replays = await _evil_replays()
    async with opened(world.empty(), replays.services()) as client:
        page = await (await client.get("/v1/replays")).json()
        ended = next(one["id"] for one in page["replays"] if one["state"] == "completed")
        answer = await client.get(f"/v1/replays/{ended}/events")
        text = await answer.text()
    assert_harmless(text)
    data = next(line for line in text.split("\n") if line.startswith("data: "))
    assert EVIL in walked(json.loads(data.removeprefix("data: ")))


def test_values_of_form_fields_come_back_as_they_were() -> None:
    fields = '<input name="reason" value="a\r\x1bb"><textarea name="keys">a\r\nb</textarea>'
    assert shown(f"{fields}<p>a\x1bb</p>") == f"{fields}<p>a\\u001bb</p>"


# ---- what comes in over the data port

Post = Callable[[DataPort], Awaitable[object]]
IS_JSON = {"Content-Type": "application/json"}
IS_V2 = {"Content-Type": "application/vnd.kafka.json.v2+json"}
IN_HEADERS = NAMED.replace("\n", " ").replace("\r", " ").encode()
AS_BASE64 = base64.b64encode(EVIL.encode()).decode()


def _native(body: object, **headers: bytes) -> Post:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda port: port.post("orders", json.dumps(body).encode(), {**IS_JSON, **named})


def _v2(record: object, topic: str = "orders") -> Post:
    body = json.dumps({"records": [record]}).encode()
    return lambda port: port.ask("POST", f"/topics/{topic}", IS_V2, body)


def _v3(record: object, topic: str = "orders") -> Post:
    body = json.dumps(record).encode()
    path = f"/v3/clusters/c-1/topics/{topic}/records"
    return lambda port: port.ask("POST", path, IS_JSON, body)


TOPIC = quote(EVIL, safe="")
STRING = {"type": "STRING", "data": EVIL}
INPUTS: dict[str, Post] = {
    "topic": lambda port: port.post(TOPIC, b"{}", IS_JSON),
    "topic, v2": _v2({"value": 1}, TOPIC),
    "topic, v3": _v3({"value": STRING}, TOPIC),
    "key": _native({"id": EVIL}),
    "key in a batch": _native([{"id": EVIL}, {"id": 1}]),
    "key, v2": _v2({"key": EVIL, "value": {"id": 1}}),
    "key, v3": _v3({"key": STRING, "value": STRING}),
    "key's type, v3": _v3({"key": {"type": EVIL, "data": 1}, "value": STRING}),
    "key in a header": _native({"id": 1}, Headgate_Key=IN_HEADERS),
    "document": _native({"id": {"a": EVIL}}),
    "document that is no JSON": lambda port: port.post("orders", EVIL.encode(), IS_JSON),
    "member": _native({EVIL: 1}),
    "member, v2": _v2({EVIL: 1}),
    "member, v3": _v3({EVIL: 1}),
    "header's value": _native({"id": 1}, Headgate_Header_x=IN_HEADERS),
    "header's name, v3": _v3({"value": STRING, "headers": [{"name": EVIL, "value": AS_BASE64}]}),
    "header's value, v3": _v3({"value": STRING, "headers": [{"name": "x", "value": EVIL}]}),
    "timestamp, v3": _v3({"value": STRING, "timestamp": EVIL}),
    "producer": _native({"id": 1}, Headgate_Producer=IN_HEADERS),
    "event id": _native({"id": 1}, Headgate_Event_Id=IN_HEADERS),
    "request id": _native({"id": 1}, X_Request_Id=IN_HEADERS),
    "content type": _native({"id": 1}, Content_Type=IN_HEADERS),
    "format": lambda port: port.post("orders", b"{}", IS_JSON, f"?format={TOPIC}"),
    "path": lambda port: port.ask("GET", f"/{TOPIC}"),
    "cluster, v3": lambda port: port.ask("GET", f"/v3/clusters/{TOPIC}/topics"),
    "burst": lambda port: port.ask("POST", f"/v1/bursts/{TOPIC}/commit"),
}


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root, stream = logging.getLogger(), io.StringIO()
    before, level = root.handlers[:], root.level
    logs.configure(LogSettings(format="text"), stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize("given", INPUTS)
async def test_no_control_character_of_a_request_comes_back(given: str, log: io.StringIO) -> None:
    async with data_port(request_log=RequestLog()) as port:
        answer = await INPUTS[given](port)
    assert raw(str(answer)) == []
    assert raw(log.getvalue()) == []
    assert FORGED not in [line[: len(FORGED)] for line in log.getvalue().splitlines()]


def walked(found: object) -> list[object]:
    if isinstance(found, dict):
        return [one for value in found.items() for one in walked(list(value))]
    if isinstance(found, list):
        return [one for value in found for one in walked(value)]
    return [found]


@pytest.mark.parametrize("text", ["", "a", "a\nb\x1b", "\u202e", "ä\t\x9b"])
def test_whoever_reads_json_has_the_text_itself(text: str) -> None:
    assert json.loads(escaped(json.dumps(text, ensure_ascii=False))) == text
    assert "\n" not in one_line(text)


# ---- what writes

# Calls that make text for people. Each of these modules writes through `escaped`, `one_line` or a
# table, as the tests above show, or says here why it does not.
_TESTED = "writes without control characters, as the tests above show"
_PAGE = "part of a page, which is rendered without control characters"
_KEPT = "for programs: Redis, Kafka, a file of state, or the next process"
_OURS = "has no text from outside"
WRITERS = {
    f"gateway/headgate/{name}.py": why
    for why, names in {
        _TESTED: """
            cli commands/config commands/output commands/serve commands/spool
            model/reply http/pages native/plain_answers
            supervisor/monitor_process metrics/logs
        """,
        _PAGE: """
            admin/console/page admin/console/overview admin/console/rendering
            admin/console/replays
        """,
        _KEPT: """
            redis/pauses commands/api_client config/problems audits/facts
            kafka/groups model/content oversize/chunks
            devstack/child admin/requests
            monitor/monitor replays/registry replays/spec tracing/exporter
        """,
        _OURS: """
            commands/completion commands/groups devstack/java devstack/session
            admin/control_plane http/openapi/document supervisor/coalescer_process
        """,
    }.items()
    for name in names.split()
} | {
    "spark/headgate_spark/audit/command.py": _TESTED,
    "spark/headgate_spark/audit/job.py": "writes without control characters, or for programs",
    "spark/headgate_spark/cli.py": _TESTED,
    "spark/headgate_spark/mirror/verify.py": "its texts are escaped where they are written",
    "spark/headgate_spark/session/source.py": _KEPT,
}


def _calls(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in ("print", "orjson.dumps", "json.dumps", "web.json_response") or (
                name.startswith(("sys.stdout", "sys.stderr")) and name.endswith("write")
            ):
                found.add(name)
    return found


def test_every_writer_is_known() -> None:
    found = {}
    for folder in ("gateway/headgate", "spark/headgate_spark"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            calls = _calls(path.read_text(encoding="utf-8"))
            if calls:
                found[str(path.relative_to(REPOSITORY))] = calls
    missing = sorted(found.keys() - WRITERS.keys())
    assert not missing, "write through `escaped`, then add them to WRITERS and to a table above"
    assert not WRITERS.keys() - found.keys(), "these write no more"
