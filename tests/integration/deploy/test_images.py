"""The image is built as it stands, and runs as in a runtime: nobody, on files that stay."""

from __future__ import annotations

import os
from http.client import HTTPConnection
from pathlib import Path

import pytest

from headgate.devstack.ports import LOOPBACK
from support.kafka.kafka_log import create_topic
from support.process.image import Builder, Image
from support.process.stack import PATIENCE, RunningBroker, free_port

pytestmark = [pytest.mark.full, pytest.mark.kafka, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def gateway(builder: Builder) -> Image:
    return builder.build("gateway")


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    found = tmp_path / "etc"
    found.mkdir()
    return found


@pytest.fixture
def state(tmp_path: Path) -> Path:
    found = tmp_path / "state"
    found.mkdir()
    os.chown(found, 65532, 65532)
    # The folders above are the test's alone.
    for folder in (found, *found.parents[:3]):
        folder.chmod(0o755)
    return found


def test_it_is_small_and_native(gateway: Image, etc: Path, state: Path) -> None:
    said = gateway.run(etc, state, ["headgate", "--version"])
    assert "native code: c, hot path: mypyc" in said
    for tool in ("pip", "gcc", "java"):
        assert not list(gateway.root.glob(f"usr/bin/{tool}*")), tool
    assert gateway.megabytes < 350
    # The runner of replays is in it, too: it needs no Java.
    assert gateway.run(etc, state, ["headgate-spark", "--version"])


def status(port: int, method: str, path: str, body: str | None = None) -> int | None:
    """None while nobody answers."""
    connection = HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


def test_a_gateway_serves_is_healthy_reloads_and_drains(
    gateway: Image, kafka: RunningBroker, topic_name: str, etc: Path, state: Path, tmp_path: Path
) -> None:
    text = f"""
        [clusters.main]
        bootstrap_servers = ["{kafka.bootstrap}"]
        [spool]
        path = "/var/lib/headgate/spool"
        [topics."{topic_name}"]
        key = ["/id"]
        spool = true
    """
    later = f"{topic_name}-later"
    for name in (topic_name, later):
        create_topic(kafka.bootstrap, name, 1, {})
    file = etc / "headgate.toml"
    file.write_text(text)
    port, management = free_port(), free_port()
    child = gateway.start(
        etc,
        state,
        tmp_path / "log",
        HEADGATE_HTTP__HOST=LOOPBACK,
        HEADGATE_HTTP__PORT=str(port),
        HEADGATE_HTTP__MANAGEMENT_PORT=str(management),
        HEADGATE_HTTP__SHUTDOWN_DELAY_MS="0",
        HEADGATE_HTTP__RELOAD_POLL_MS="50",
    )
    deadline_s = 20 * PATIENCE
    try:
        child.wait_until(lambda: status(management, "GET", "/ready") == 200, deadline_s)
        check = [word.replace(":9090/", f":{management}/") for word in gateway.words("Healthcheck")]
        gateway.run(etc, state, check)
        assert status(port, "POST", f"/v1/topics/{topic_name}/events", '{"id": 1}') == 201
        assert (state / "spool").stat().st_uid == 65532
        fresh = etc / "fresh"
        fresh.write_text(f'{text}\n[topics."{later}"]\nkey = ["/id"]\n')
        fresh.replace(file)
        path = f"/v1/topics/{later}/events"
        child.wait_until(lambda: status(port, "POST", path, '{"id": 1}') == 201, deadline_s)
    finally:
        child.stop(30 * PATIENCE)
    assert child.exit_code == 0, child.log_tail()
