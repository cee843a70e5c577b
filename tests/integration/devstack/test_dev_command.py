"""`headgate dev` as a real process: start, stop, kill -9, taken ports, own configuration."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from headgate.devstack.ports import LOOPBACK, claim, free_port
from support.kafka.kafka_log import LogRecord, end_offsets, read_log
from support.process.running_dev import Dev
from support.process.stack import eventually

pytestmark = pytest.mark.kafka

FIELDS = {"gateway", "management", "ingest", "backfill", "redis", "config", "state", "pids"}
DEAL = b'{"id": "2342565", "price": 199}'


@pytest.fixture
def start_dev(tmp_path: Path) -> Iterator[Callable[..., Dev]]:
    """Start `headgate dev --json` on the test's state folder."""
    with ExitStack() as ending:

        def start(*options: str) -> Dev:
            dev = Dev(tmp_path / "state", *options)
            ending.callback(dev.force_end)
            return dev

        yield start


def all_pids(ready: dict[str, Any]) -> list[int]:
    return [pid for pids in ready["pids"].values() for pid in pids]


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def alive(ready: dict[str, Any]) -> list[int]:
    return [pid for pid in all_pids(ready) if is_alive(pid)]


def pause(management: str, group: str) -> None:
    body, headers = b'{"scope": "all", "reason": "deploy"}', {"Content-Type": "application/json"}
    url = f"{management}/v1/pauses/{group}"
    request = urllib.request.Request(url, body, headers, method="PUT")
    urllib.request.urlopen(request, timeout=10).close()


def post(gateway: str, topic: str, body: bytes) -> dict[str, Any]:
    request = urllib.request.Request(f"{gateway}/v1/topics/{topic}/events", body)
    request.add_header("Content-Type", "application/json")
    request.add_header("Headgate-Producer", "me")
    with urllib.request.urlopen(request, timeout=90) as answer:
        outcome: dict[str, Any] = json.load(answer)
        return outcome


def first_shown(viewer: Path, topic: str) -> str:
    """Run the printed command until it has shown one record."""
    with subprocess.Popen([str(viewer), topic], stdout=subprocess.PIPE, text=True) as consumer:
        assert consumer.stdout is not None
        line = consumer.stdout.readline().rstrip("\n")
        consumer.kill()
    return line


async def test_the_life_of_a_state_folder(start_dev: Callable[..., Dev]) -> None:
    """Starts cost ten seconds each, so one story has several."""
    killed = start_dev("--operations")
    ready = killed.ready()
    log = await its_stack_works(ready, "monitor", "mirror", "replays")
    second_run_is_refused(start_dev)
    for name in ("redis", "ingest", "gateway", "monitor"):
        await a_killed_process_comes_back(killed, ready, name)
    log = read_log(ready["ingest"], "deals")
    killed.end(signal.SIGKILL)

    port, management = free_port(), free_port()
    second = start_dev("--port", str(port), "--management-port", str(management))
    after_kill = second.ready()
    assert after_kill["gateway"] == f"http://{LOOPBACK}:{port}"
    assert after_kill["management"] == f"http://{LOOPBACK}:{management}"
    assert not alive(ready), "the next start ends what a kill -9 left"
    assert read_log(after_kill["ingest"], "deals") == log
    assert second.end(signal.SIGTERM) == 0
    assert not alive(after_kill)


@pytest.mark.full
async def test_the_later_life_of_a_state_folder(start_dev: Callable[..., Dev]) -> None:
    first = start_dev()
    ready = first.ready()
    post(ready["gateway"], "deals", DEAL)
    log = read_log(ready["ingest"], "deals")
    assert first.end(signal.SIGTERM) == 0

    second = start_dev()
    ready = second.ready()
    assert read_log(ready["ingest"], "deals") == log
    a_gateway_that_ends_too_often_ends_everything(second, ready)

    fresh = start_dev("--fresh")
    ready = fresh.ready()
    assert read_log(ready["ingest"], "deals") == []
    assert fresh.end(signal.SIGINT) == 0
    assert not alive(ready)


async def its_stack_works(ready: dict[str, Any], *operations: str) -> list[LogRecord]:
    """Post an event twice; returns the log."""
    assert ready.keys() == FIELDS
    assert ready["pids"].keys() == {"gateway", "ingest", "backfill", "redis", *operations}
    partitions = {name: len(end_offsets(ready["ingest"], name)) for name in ("deals", "clicks")}
    assert partitions == {"deals": 12, "clicks": 6}
    first = post(ready["gateway"], "deals", DEAL)
    assert first["outcome"] == "published"
    again = post(ready["gateway"], "deals", DEAL)  # ready means that quarantine is over, too
    assert [again[name] for name in ("outcome", "partition")] == ["unchanged", first["partition"]]
    log = read_log(ready["ingest"], "deals")
    assert (again["partition"], again["offset"]) == log[-1][:2]
    assert {(one.key, one.value) for one in log} == {(b"2342565", DEAL)}

    shown = await asyncio.to_thread(first_shown, Path(ready["state"]) / "show-topic", "deals")
    assert f"Partition:{first['partition']}\tOffset:0" in shown
    assert "hg-producer:me" in shown
    assert shown.endswith("\t2342565\t" + DEAL.decode())
    return log


def second_run_is_refused(start_dev: Callable[..., Dev]) -> None:
    second = start_dev()
    assert second.process.wait(90) == 1
    assert "another `headgate dev` runs" in second.progress.read_text()


def a_gateway_that_ends_too_often_ends_everything(dev: Dev, ready: dict[str, Any]) -> None:
    """Its configuration is spoiled under it, so no successor can start."""
    with Path(ready["config"]).open("a") as config:
        config.write("\n[nonsense]\n")
    psutil.Process(ready["pids"]["gateway"][0]).kill()
    assert dev.process.wait(120) == 1
    shown = dev.progress.read_text()
    assert shown.count("nonsense") == 1, "the log of the last gateway only"
    *_, last = shown.splitlines()
    assert "the cause: gateway ended (exit code 2, pid " in last
    assert last.endswith("gateway.log")
    assert not alive(ready)


async def a_killed_process_comes_back(dev: Dev, ready: dict[str, Any], name: str) -> None:
    """Kill it; after its line, the data is there and the gateway publishes and suppresses."""
    before = read_log(ready["ingest"], "deals")
    pid = ready["pids"][name][0]
    psutil.Process(pid).kill()
    shown = dev.progress.read_text
    line = rf"\(signal 9, pid {pid}\), started again after \d+\.\d s \(pid \d+\)\n"
    await eventually(lambda: re.search(line, shown()), 90)
    assert read_log(ready["ingest"], "deals")[: len(before)] == before

    async def is_answered(outcome: str) -> bool:
        body = json.dumps({"id": f"after {name}"}).encode()
        try:
            answer = await asyncio.to_thread(post, ready["gateway"], "deals", body)
        except OSError:  # urllib raises an HTTP error for 503, too
            return False
        return bool(answer["outcome"] == outcome)

    await eventually(lambda: is_answered("published"), 90)
    await eventually(lambda: is_answered("unchanged"), 90)
    assert dev.process.poll() is None


@contextmanager
def port_8080_taken() -> Iterator[None]:
    """Listen on 8080, unless something else does, or is about to: the same to `headgate dev`."""
    mark = claim(8080)
    if mark is None:
        yield
        return
    with mark:
        try:
            server = socket.create_server((LOOPBACK, 8080))
        except OSError:
            yield
            return
    with server:
        yield


async def test_taken_ports_own_topics_and_demo(
    start_dev: Callable[..., Dev], tmp_path: Path
) -> None:
    overlay, management = tmp_path / "mine.toml", free_port()
    overlay.write_text(
        f'[http]\nmanagement_port = {management}\n[redis]\nurl = "redis://elsewhere:6379/0"\n'
        '[topics.extra]\nkey = ["/id"]\nkind = "state"\ncoalesce_quiet_ms = 50\n'
    )
    with port_8080_taken():
        dev = start_dev("--config", str(overlay), "--demo")
        ready = dev.ready()
    assert ready["gateway"] != f"http://{LOOPBACK}:8080"
    assert ready["management"] == f"http://{LOOPBACK}:{management}"
    assert "redis.url is not used" in dev.progress.read_text()
    assert "port 8080 is taken" in dev.progress.read_text()
    assert len(end_offsets(ready["ingest"], "extra")) == 6
    assert len(end_offsets(ready["ingest"], "headgate.held.extra")) == 12
    assert post(ready["gateway"], "extra", DEAL)["outcome"] == "held"
    await eventually(
        lambda: [one.value for one in read_log(ready["ingest"], "extra")] == [DEAL], 30
    )

    def demo_producers() -> bool:
        topics = ("orders", "deals-coalesced", "clicks", "documents")
        logs = (read_log(ready["ingest"], topic) for topic in topics)
        found = {one.header("hg-producer") for log in logs for one in log}
        return found == {b"checkout", b"deal-admin", b"web", b"archive"}

    await eventually(demo_producers, 30)

    def demo_groups() -> bool:
        try:
            with urllib.request.urlopen(ready["management"] + "/v1/groups", timeout=10) as answer:
                found = json.load(answer)["groups"]
        except OSError:  # 503 until the monitor answers
            return False
        return {"emails", "search-index"} <= {one["group"] for one in found}

    await eventually(demo_groups, 60)
    pause(ready["management"], "emails")

    def demo_obeys() -> bool:
        with urllib.request.urlopen(ready["management"] + "/v1/groups/emails", timeout=10) as said:
            (group,) = json.load(said)["on"]
        return (group["paused"], group["deaf_members"], group["not_obeyed"]) == (True, 0, None)

    await eventually(demo_obeys, 30)


def test_a_port_of_the_configuration_that_is_taken_is_an_error(
    start_dev: Callable[..., Dev], tmp_path: Path
) -> None:
    overlay = tmp_path / "mine.toml"
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        overlay.write_text(f"[http]\nport = {port}\n")
        dev = start_dev("--config", str(overlay))
        assert dev.process.wait(60) == 1
    assert f"http.port: port {port} is taken" in dev.progress.read_text()


def test_bad_configuration_is_refused_before_anything_starts(
    start_dev: Callable[..., Dev], tmp_path: Path
) -> None:
    overlay = tmp_path / "bad.toml"
    overlay.write_text('[topics.extra]\nkind = "sate"\n')
    dev = start_dev("--config", str(overlay))
    assert dev.process.wait(60) == 2
    shown = dev.progress.read_text()
    assert "topics.extra.kind" in shown
    assert "starting" not in shown
