"""The parent with real processes: restarts, figures that never go back, reload, drain, no orphans.

The workers are stand-ins without Kafka (fake_worker.py); test_workers_serve.py has real ones.
"""

import json
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from headgate.check.local import judge_settings
from headgate.config import load_with_origins
from headgate.devstack.ports import LOOPBACK
from support.clients.http_client import Connection, request_bytes
from support.process.parent_process import Running
from support.process.stack import free_port
from support.scale import scaled


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(
        workers: int = 2,
        environ: Mapping[str, str] | None = None,
        drain_ms: int = 60_000,
        delay_ms: int = 0,
        management_port: int | None = None,
    ) -> Running:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Running(folder, workers, environ or {}, drain_ms, delay_ms, management_port))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.mark.parametrize("kills", scaled(1, 3))
def test_figures_of_all_workers_add_up_and_survive_kills(
    start: Callable[..., Running], kills: int
) -> None:
    running = start(workers=2)
    running.until(running.ready)
    readings = [running.until(running.events)]
    for _ in range(kills):
        victim = next(iter(running.workers().values()))
        victim.kill()
        running.until(lambda victim=victim: victim.pid not in running.workers())
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            readings.append(running.events())
            time.sleep(0.02)
        running.until(lambda: running.ready() and len(running.workers()) == 2)
    readings.append(running.events())
    assert readings == sorted(readings)
    assert readings[-1] > readings[0] > 0

    def metrics_when_both_are_up() -> str:
        _, text = running.get("/metrics")  # read once a second
        return text if 'headgate_workers{state="up"} 2.0' in text else ""

    assert f"headgate_worker_restarts_total {kills}.0" in running.until(metrics_when_both_are_up)
    assert running.log.count("was killed by SIGKILL") == kills


def test_a_worker_that_hangs_is_seen_and_holds_nobody_up(start: Callable[..., Running]) -> None:
    running = start(workers=2)
    running.until(running.ready)
    before = running.until(running.events)
    frozen = next(iter(running.workers().values()))
    frozen.suspend()
    try:
        running.until(lambda: running.json("/ready")["workers"] == {"up": 1, "wanted": 2})
        assert running.json("/ready")["status"] == "degraded"
        running.until(lambda: running.events() > before)
    finally:
        frozen.resume()
    running.until(running.ready)
    assert "does not answer" in running.log
    running.until(lambda: "answers again" in running.log)


def test_rates_and_pages(start: Callable[..., Running]) -> None:
    running = start(workers=2)
    running.until(lambda: running.ready() and running.json("/v1/producers/shop")["events_per_s"])
    shop = running.json("/v1/producers/shop?pretty")
    (orders,) = shop["topics"]
    assert orders["topic"] == "orders"
    assert orders["size_bytes"]["p50"] == 100
    assert orders["keys"]["top_by_events"] == [
        {"key": "k", "events": orders["window"]["events"], "share": 1.0}
    ]
    status, _ = running.get("/v1/suppression/orders?key=a", "DELETE")
    assert status == 200
    (change,) = running.json("/v1/changes")["changes"]
    assert (change["what"], change["topic"], change["key"]) == ("forget", "orders", "a")
    assert "forgot orders b'a'" in running.until(
        lambda: (text := running.get("/metrics")[1]) and "forgot" in text and text
    )


def test_reload_puts_a_good_file_in_force_everywhere(start: Callable[..., Running]) -> None:
    running = start(workers=2)
    running.until(running.ready)
    running.config.write_text(running.text + "[producers.till]\n")
    running.process.send_signal(signal.SIGHUP)
    running.until(lambda: _producers(running) == "shop,till")
    assert running.get("/v1/producers/till")[0] == 200
    before = running.workers()
    for worker in before.values():  # one that is born later reads the new one, too
        worker.kill()
    running.until(lambda: len(running.workers().keys() - before.keys()) == 2)
    running.until(running.ready)
    assert _producers(running) == "shop,till"


def test_a_replaced_file_is_reloaded_without_a_signal(start: Callable[..., Running]) -> None:
    running = start(workers=2, environ={"HEADGATE_HTTP__RELOAD_POLL_MS": "50"})
    running.until(running.ready)
    for producer in ("till", "web"):
        fresh = running.config.with_suffix(".new")
        fresh.write_text(f"{running.text}[producers.{producer}]\n")
        fresh.replace(running.config)
        running.until(lambda wanted=f"shop,{producer}": _producers(running) == wanted)
    metrics = running.get("/metrics")[1]
    assert 'headgate_config_reloads_total{result="applied"} 2.0' in metrics


REFUSED = [
    (("kind =", "kinds ="), "kinds"),
    (('suppress = "raw"', 'suppress = "maybe"'), "topics.orders.suppress"),
    (("drain_timeout_ms = 60000", "drain_timeout_ms = 2000"), "http.drain_timeout_ms"),
    (("[topics.orders]", "[topics.orders"), "headgate.toml"),
]


def test_what_happened_is_kept_over_a_restart(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    file = tmp_path / "installation.log"
    environ = {"HEADGATE_LOGS__INSTALLATION_FILE": str(file)}
    running = start(workers=1, environ=environ)
    running.until(running.ready)
    (victim,) = running.workers().values()
    victim.kill()
    running.until(lambda: kinds(running)[:2] == ["worker_started", "worker_died"])
    running.until(running.ready)
    running.config.write_text(running.text + "[producers.till]\n")
    running.process.send_signal(signal.SIGHUP)
    running.until(lambda: kinds(running)[:1] == ["reloaded"])
    entry = running.json("/v1/log?kind=reloaded&limit=1")["entries"][0]
    named = {name: entry["details"][name] for name in ("added", "removed", "changed")}
    assert named == {"added": ["producers.till"], "removed": [], "changed": []}
    assert "added producers.till" in entry["text"]
    running.config.write_text(running.text + "nothing = 1\n")
    running.process.send_signal(signal.SIGHUP)
    running.until(lambda: kinds(running)[:1] == ["reload_refused"])
    refused = running.json("/v1/log?limit=1")["entries"][0]
    assert "topics.orders.nothing" in refused["text"]
    assert refused["details"]["options"] == ["topics.orders.nothing"]
    running.process.terminate()
    assert running.process.wait(30) == 0
    first = ["started", "worker_died", "worker_started"]
    first += ["reloaded", "reload_refused", "draining", "ended"]
    assert [json.loads(line)["kind"] for line in file.read_text().splitlines()] == first
    again = start(workers=1, environ=environ)
    again.until(again.ready)
    assert kinds(again) == [*first, "started"][::-1]


def kinds(running: Running) -> list[str]:
    return [entry["kind"] for entry in running.json("/v1/log")["entries"]]


def test_the_configuration_in_force_says_where_values_are_from(
    start: Callable[..., Running],
) -> None:
    running = start(workers=1, environ={"HEADGATE_LOGS__LEVEL": "WARNING"})
    running.until(running.ready)
    shown = running.json("/v1/config?given=true&limit=1000")
    origins = {one["option"]: one["origin"] for one in shown["options"]}
    assert origins["logs.level"] == "HEADGATE_LOGS__LEVEL"
    line = int(origins["topics.orders.kind"].removeprefix(f"{running.config.name}:"))
    assert running.text.splitlines()[line - 1].startswith("kind")
    found = running.json("/v1/config/findings")["findings"]
    loaded = load_with_origins(running.config, {"HEADGATE_LOGS__LEVEL": "WARNING"})
    assert found == [finding._asdict() for finding in judge_settings(*loaded)]
    assert found


def test_reload_refuses_a_bad_file_and_names_what_is_wrong(start: Callable[..., Running]) -> None:
    running = start(workers=1)
    running.until(running.ready)
    assert _last_reload(running)[0] == 1
    for number, (change, named) in enumerate(REFUSED, start=1):
        read = len(running.log)
        running.config.write_text((running.text + "[producers.till]\n").replace(*change))
        running.process.send_signal(signal.SIGHUP)
        running.until(lambda read=read: "reload refused" in running.log[read:])
        assert named in running.log[read:]
        assert running.get("/v1/producers/till")[0] == 404
        metrics = running.get("/metrics")[1]
        assert f'headgate_config_reloads_total{{result="refused"}} {number}.0' in metrics
        assert _last_reload(running)[0] == 0
    before = set(running.workers())
    next(iter(running.workers().values())).kill()  # the file in force is kept for restarts
    running.until(lambda: set(running.workers()) - before)
    running.until(running.ready)
    assert _producers(running) == "shop"
    first_s = _last_reload(running)[1]
    running.config.write_text(running.text)
    running.process.send_signal(signal.SIGHUP)
    running.until(lambda: _last_reload(running)[0] == 1)
    assert _last_reload(running)[1] > first_s > time.time() - 3600


def test_a_reload_of_which_no_copy_can_be_kept_is_refused(start: Callable[..., Running]) -> None:
    running = start(workers=1)
    running.until(running.ready)
    (private,) = running.folder.glob("headgate-*")
    (private / "headgate.toml.new").mkdir()
    running.config.write_text(running.text + "[producers.till]\n")
    running.process.send_signal(signal.SIGHUP)
    running.until(lambda: "reload refused" in running.log)
    assert 'headgate_config_reloads_total{result="refused"} 1.0' in running.get("/metrics")[1]
    assert _last_reload(running)[0] == 0
    assert _producers(running) == "shop"


def _last_reload(running: Running) -> tuple[float, float]:
    """Whether the last reload succeeded, and when the active configuration was read."""
    name, text = "headgate_config_last_reload_success", running.get("/metrics")[1]
    found = re.search(rf"^{name}ful (\S+)$", text, re.M)
    read = re.search(rf"^{name}_timestamp_seconds (\S+)$", text, re.M)
    assert found is not None
    assert read is not None
    return float(found[1]), float(read[1])


def _producers(running: Running) -> str:
    return str(running.json("/ready")["dependencies"]["producers"]["detail"])


def test_a_long_temporary_folder_leaves_room_for_sockets(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    running = start(workers=1, environ={"TMPDIR": str(deep)})
    running.until(running.ready)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)]
)
def test_a_signal_ends_everything(start: Callable[..., Running], number: signal.Signals) -> None:
    running = start(workers=2)
    running.until(running.ready)
    assert len(running.workers()) == 2
    running.process.send_signal(number)
    assert running.process.wait(60) == 0
    assert running.orphans() == []
    assert list(running.folder.iterdir()) == []


def test_a_stubborn_worker_is_killed_when_asked_twice(start: Callable[..., Running]) -> None:
    running = start(workers=1, environ={"FAKE_WORKER": "stubborn"})
    running.until(running.ready)
    running.workers()  # noted, so that orphans would be found
    running.process.terminate()
    running.until(lambda: "draining" in running.log)
    assert running.get("/ready")[0] == 503
    running.process.terminate()
    assert running.process.wait(40) == 0  # of the 65 that it has
    assert running.orphans() == []


def test_a_stubborn_worker_is_killed_after_the_time_for_draining(
    start: Callable[..., Running],
) -> None:
    running = start(workers=1, environ={"FAKE_WORKER": "stubborn"}, drain_ms=1_000)
    running.until(running.ready)
    running.workers()
    running.process.terminate()
    assert running.process.wait(60) == 1
    assert running.orphans() == []
    assert "are killed" in running.log


def test_a_second_signal_leaves_the_delay_out(start: Callable[..., Running]) -> None:
    running = start(workers=2, environ={"FAKE_WORKER": "slow"}, delay_ms=600_000)
    running.until(running.ready)
    running.workers()
    running.process.terminate()
    running.until(lambda: "draining" in running.log)
    assert running.get("/live")[0] == 200
    assert len(running.workers()) == 2
    running.process.terminate()
    assert running.process.wait(60) == 0
    assert running.orphans() == []


def test_nobody_at_a_terminal_waits_for_the_delay(start: Callable[..., Running]) -> None:
    running = start(workers=1, environ={"FAKE_WORKER": "slow"}, delay_ms=600_000)
    running.until(running.ready)
    running.workers()
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(60) == 0
    assert running.orphans() == []


def test_the_delay_is_part_of_the_time_until_a_worker_is_killed(
    start: Callable[..., Running],
) -> None:
    running = start(
        workers=1, environ={"FAKE_WORKER": "stubborn"}, drain_ms=1_000, delay_ms=600_000
    )
    running.until(running.ready)
    running.process.terminate()
    assert '"bound_s":606.0' in running.until(lambda: "draining" in running.log and running.log)


def test_management_pages_send_clients_away_while_draining(start: Callable[..., Running]) -> None:
    running = start(workers=1, environ={"FAKE_WORKER": "slow"}, delay_ms=600_000)
    running.until(running.ready)
    with ExitStack() as connections:
        kept = {
            path: connections.enter_context(Connection(running.management_port))
            for path in ("/live", "/ready", "/metrics", "/v1/topics", "/nowhere")
        }
        for path, connection in kept.items():
            connection.send(request_bytes("GET", path, {}))
            assert "connection" not in connection.answer().headers, path
        running.process.terminate()
        running.until(lambda: "draining" in running.log)
        for path, connection in kept.items():
            connection.send(request_bytes("GET", path, {}))
            answer = connection.answer()
            assert answer.headers["connection"] == "close", path
            assert (answer.status == 503) == (path == "/ready"), path
            assert connection.is_closed(), path


@pytest.mark.parametrize("mode", [pytest.param("", marks=pytest.mark.full), "stubborn"])
def test_no_worker_outlives_a_killed_parent(start: Callable[..., Running], mode: str) -> None:
    running = start(workers=2, environ={"FAKE_WORKER": mode})
    running.until(running.ready)
    assert len(running.workers()) == 2
    running.process.kill()
    running.process.wait()
    running.until(lambda: not running.orphans())


def test_a_configuration_that_workers_refuse_ends_the_parent(
    start: Callable[..., Running],
) -> None:
    running = start(workers=2, environ={"FAKE_WORKER": "hopeless"})
    assert running.process.wait(60) == 2
    assert "refused to start" in running.log


def test_a_worker_that_cannot_start_is_tried_again_more_slowly(
    start: Callable[..., Running],
) -> None:
    running = start(workers=1, environ={"FAKE_WORKER": "broken"})
    running.until(lambda: running.log.count("exited with code 1") >= 3)
    assert running.get("/ready")[0] == 503
    assert running.get("/live")[0] == 200
    pauses = re.findall(r"restarted in (\S+) s", running.log)
    assert pauses[:3] == ["0.1", "0.2", "0.4"]


def test_a_taken_port_is_named(start: Callable[..., Running]) -> None:
    with socket.create_server((LOOPBACK, free_port())) as taken:
        running = start(workers=1, management_port=taken.getsockname()[1])
        assert running.process.wait(90) == 1
    assert "http.management_port" in running.log
