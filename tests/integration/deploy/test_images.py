"""The image is built as it stands, and runs as in a runtime: nobody, on files that stay."""

from __future__ import annotations

import os
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headgate.devstack.ports import LOOPBACK
from support.deploy.image import Builder, Image
from support.kafka.kafka_log import create_topic, read_log
from support.process.mirror_job import QUICK, config_text
from support.process.stack import PATIENCE, RunningBroker, free_port
from support.scenarios.mirror_world import Two

# Not of those that CI must not skip (`kafka`): they need buildah and root.
pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    found = Builder(tmp_path_factory.mktemp("images"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def gateway(builder: Builder) -> Image:
    return builder.build("gateway")


@pytest.fixture(scope="module")
def jobs(builder: Builder) -> Image:
    return builder.build("jobs")


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
    assert gateway.megabytes < 280
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


def test_a_mirror_runs_where_nothing_but_tmp_can_be_written(
    jobs: Image,
    kafka: RunningBroker,
    backfill: RunningBroker,
    topic_name: str,
    etc: Path,
    tmp_path: Path,
) -> None:
    """Java, Spark and the connector, without fetching anything; and an audit."""
    create_topic(kafka.bootstrap, topic_name, 1, {})
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(100):
        producer.produce(topic_name, f"{number}", f"key-{number % 7}")
    assert producer.flush(30) == 0
    (etc / "headgate.toml").write_text(config_text(Two(kafka, backfill), [topic_name]))
    kept = tmp_path / "root"  # of root, so nobody else writes to it
    kept.mkdir(mode=0o755)
    said = jobs.run(etc, kept, ["headgate-spark", "--help"])
    assert "mirror" in said
    config = ["--config", "/etc/headgate/headgate.toml"]
    jobs.run(etc, kept, ["headgate-spark", "mirror", *config, *QUICK])
    assert len(read_log(backfill.bootstrap, topic_name)) == 100
    audit = ["headgate-spark", "audit", *config, "--out", "/tmp/audit", "--topics", topic_name]
    jobs.run(etc, kept, [*audit, *QUICK])
    assert jobs.megabytes < 1250
