"""Whatever ends a command or a script from outside is told in a sentence, without a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headgate.cli import COMMANDS
from support.root import ROOT
from support.scale import scaled

SPARK_JOBS = ("audit", "mirror", "verify", "replay")
READ = str(ROOT / "deploy" / "replay" / "read_replay.py")
JOB = str(ROOT / "deploy" / "spark" / "headgate_spark_job.py")
SCRIPTS = {READ, JOB}
NOBODY = "http://127.0.0.1:1"  # tcpmux: nothing answers there
GATEWAY, SPARK = ("-m", "headgate"), ("-m", "headgate_spark")
CREATE = ("replay", "create", "--topic", "orders", "--from", "2h")


def start(
    arguments: Sequence[str],
    lacking: Sequence[str] = (),
    output: int = subprocess.PIPE,
    **variables: str,
) -> subprocess.Popen[str]:
    """Run Python with these arguments, where these modules are not installed."""
    code = os.pathsep.join(str(ROOT / one) for one in ("gateway", "spark"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    environment = {**kept, "PYTHONPATH": code, **variables}
    if lacking:
        is_module = arguments[0] == "-m"
        run = "run_module" if is_module else "run_path"
        rest = list(arguments[2 if is_module else 1 :])
        name = repr(arguments[1 if is_module else 0])
        hidden = f"import runpy, sys; sys.modules.update(dict.fromkeys({list(lacking)!r}))\n"
        call = f"sys.argv = [{name}, *{rest!r}]\nrunpy.{run}({name}, run_name='__main__')"
        arguments = ("-c", hidden + call)
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment, stdout=output, stderr=subprocess.PIPE, text=True,
        # A shell has those that it starts in the background ignore Ctrl-C; this is one in front.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def wait_until_it_waits(process: subprocess.Popen[str]) -> None:
    """Python notices a signal that comes just before a call that waits when that call ends."""
    end = time.monotonic() + 60
    stat = Path(f"/proc/{process.pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < end, "it never waits"
        time.sleep(0.01)


def ended(process: subprocess.Popen[str], *codes: int) -> str:
    """What it says on standard error."""
    with process:
        try:
            _, told = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert "Traceback" not in told, told
    assert "Exception ignored" not in told, told
    assert process.returncode in codes, (process.returncode, told)
    return told


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "headgate.toml"
    file.write_text(
        '[clusters.main]\nbootstrap_servers = "127.0.0.1:1"\nbackfill = "old"\n[clusters.old]\n'
        'tier = "backfill"\nbootstrap_servers = "127.0.0.1:1"\n[topics.orders]\n'
    )
    return str(file)


@pytest.mark.parametrize(  # `replay` needs no Spark
    "job", ["audit", "mirror", pytest.param("verify", marks=pytest.mark.full)]
)
def test_a_job_without_its_extra_says_what_to_install(
    job: str, config: str, tmp_path: Path
) -> None:
    more = ["--out", str(tmp_path / "out")] if job == "audit" else []
    for lacking in (["pyspark", "py4j"], ["numpy", "pandas", "py4j", "pyarrow", "pyspark"]):
        for way in (SPARK, (JOB,)):
            told = ended(start([*way, job, "--config", config, *more], lacking), 1)
            assert "is missing: pip install 'headgate[spark]'\n" in told
            assert told.count("\n") == 1


def test_the_script_without_a_client_says_what_to_install() -> None:
    told = ended(start([READ, "x"], ["aiokafka"]), 1)
    assert told == "aiokafka is missing: pip install headgate, or aiokafka and cramjam\n"


class Answers(BaseHTTPRequestHandler):
    """A gateway whose replays are never done, a page that is none of ours, or silence."""

    def do_GET(self) -> None:
        if "silence" in self.path:
            self.log_message()
            self.server.silenced.wait(60)  # type: ignore[attr-defined]
            return
        page = {"id": "r1", "state": "pending", "planned": {"records": 9}, "result": None}
        page["done"] = {"read": 0, "records": 0, "bytes": 0}
        body = b"<html>" if "elsewhere" in self.path else json.dumps(page).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        self.server.asked.set()  # type: ignore[attr-defined]


@contextmanager
def answering() -> Iterator[tuple[str, threading.Event]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.asked, server.silenced = threading.Event(), threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.asked  # type: ignore[attr-defined]
    finally:
        server.silenced.set()  # type: ignore[attr-defined]
        server.shutdown()
        server.server_close()
        thread.join()


def test_ctrl_c_while_a_replay_is_waited_for() -> None:
    with answering() as (url, _):
        process = start([*GATEWAY, *CREATE, "--wait"], HEADGATE_URL=url)
        assert process.stderr is not None
        assert process.stderr.readline() == "r1 pending: 0 %, 0 of 9 records, 0 B, 0 taken\n"
        process.send_signal(signal.SIGINT)
        told = ended(process, 1)
    assert "replay r1 goes on (`headgate replay show r1`, or `cancel`)" in told


@pytest.mark.parametrize("command", [[*GATEWAY, "replay", "list"], [READ, "x"]], ids=["list", "x"])
def test_ctrl_c_while_the_gateway_is_silent(command: list[str]) -> None:
    with answering() as (url, asked):
        process = start(command, HEADGATE_URL=f"{url}/silence")
        assert asked.wait(60)
        wait_until_it_waits(process)
        process.send_signal(signal.SIGINT)
        assert "SIGINT" in ended(process, 1)


@pytest.mark.parametrize("most", scaled(1, None))
def test_a_reader_that_leaves_ends_a_command_silently(config: str, most: int | None) -> None:
    """As `| head` does: what is written may never have been wanted."""
    shown = [
        *((*GATEWAY, name, "--help") for name in list(COMMANDS)[:most]),
        *((*SPARK, name, "--help") for name in SPARK_JOBS[:most]),
        (JOB, "--help"),
    ]
    with answering() as (url, _):
        said = [(*GATEWAY, "config", "--config", config), (*GATEWAY, "replay", "list"),
                (*GATEWAY, *CREATE)]  # fmt: skip
        for command in (*shown, *said):
            reader, writer = os.pipe()
            os.close(reader)  # before it starts, so that it never is in time
            process = start(command, output=writer, HEADGATE_URL=url, PYTHONUNBUFFERED="")
            os.close(writer)
            assert (command, ended(process, 1)) == (command, "")


@pytest.mark.parametrize(
    "command",
    [
        [*GATEWAY, "replay", "list"],
        # the same client as `list`
        pytest.param([*GATEWAY, *CREATE], marks=pytest.mark.full),
        pytest.param(
            [*GATEWAY, "offsets", "translate", "--topic", "orders", "0:1"], marks=pytest.mark.full
        ),
        [READ, "x"],
    ],
    ids=["list", "create", "translate", "read"],
)
def test_a_gateway_that_does_not_answer_is_named(command: list[str]) -> None:
    told = ended(start(command, HEADGATE_URL=NOBODY), 1)
    assert f"--url {NOBODY}" in told
    assert "does not answer" in told
    with answering() as (url, _):
        told = ended(start(command, HEADGATE_URL=f"{url}/elsewhere"), 1)
        assert f"--url {url}/elsewhere" in told
    told = ended(start(command, HEADGATE_URL="elsewhere"), 1, 2)
    assert "--url elsewhere" in told


def test_a_password_that_is_not_set_is_asked_for() -> None:
    secured = [READ, "--security-protocol", "SASL_SSL"]
    assert "needs --sasl-username" in ended(start([*secured, "x"]), 2)
    kept = {"KAFKA_PASSWORD": ""}
    told = ended(start([*secured, "--sasl-username", "me", "x"], (), **kept), 2)
    assert "set KAFKA_PASSWORD" in told


def test_every_script_is_here() -> None:
    found = {str(one) for one in (ROOT / "deploy").rglob("*.py")}
    assert found == SCRIPTS
