"""A gateway reloads what a kubelet renews: a folder whose link `..data` is turned."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from headgate.devstack.ports import LOOPBACK
from support.kafka.kafka_log import create_topic
from support.process.stack import PATIENCE, START_S, Gateway, RunningBroker

pytestmark = pytest.mark.kafka

_DEADLINE_S = 20 * PATIENCE


class Mounted:
    """A ConfigMap as a pod sees it: names lead to `..data`, and that to what is in force."""

    def __init__(self, folder: Path, texts: dict[str, str]) -> None:
        self.folder = folder
        self._number = 0
        folder.mkdir()
        self.renew(texts)
        for name in texts:
            (folder / name).symlink_to(f"..data/{name}")

    def renew(self, texts: dict[str, str]) -> None:
        """All files at once, as one turn of a link."""
        self._number += 1
        fresh = self.folder / f"..{self._number}"
        fresh.mkdir()
        for name, text in texts.items():
            (fresh / name).write_text(text)
        turned = self.folder / "..data_tmp"
        turned.symlink_to(fresh.name)
        turned.replace(self.folder / "..data")


def config(bootstrap: str, schema: Path, *topics: str) -> str:
    named = "".join(
        f'[topics."{topic}"]\nkey = ["/id"]\nschema_file = "{schema}"\n' for topic in topics
    )
    return f'[clusters.main]\nbootstrap_servers = ["{bootstrap}"]\n{named}'


@pytest.fixture
def topics(kafka: RunningBroker, topic_name: str) -> list[str]:
    names = [topic_name, f"{topic_name}-later"]
    for name in names:
        create_topic(kafka.bootstrap, name, 1, {})
    return names


@pytest.fixture
def mounted(kafka: RunningBroker, topics: list[str], tmp_path: Path) -> Mounted:
    etc = tmp_path / "etc"
    text = config(kafka.bootstrap, etc / "id.json", topics[0])
    return Mounted(etc, {"headgate.toml": text, "id.json": numbers_of("integer")})


@pytest.fixture
def gateway(mounted: Mounted) -> Iterator[Gateway]:
    text = (mounted.folder / "headgate.toml").read_text()
    found = Gateway(mounted.folder, text, (), {"HEADGATE_HTTP__RELOAD_POLL_MS": "50"})
    try:
        found.wait(START_S)
        yield found
    finally:
        found.kill()


def numbers_of(kind: str) -> str:
    return f'{{"properties": {{"id": {{"type": "{kind}"}}}}}}'


def status(gateway: Gateway, topic: str, body: str) -> int:
    connection = HTTPConnection(LOOPBACK, gateway.port, timeout=10)
    try:
        head = {"Content-Type": "application/json"}
        connection.request("POST", f"/v1/topics/{topic}/events", body, head)
        return connection.getresponse().status
    finally:
        connection.close()


def test_topics_and_schemas_are_in_force_and_what_is_refused_is_not(
    kafka: RunningBroker, topics: list[str], mounted: Mounted, gateway: Gateway
) -> None:
    first, later = topics
    schema = mounted.folder / "id.json"
    child = gateway.child
    one = config(kafka.bootstrap, schema, first)
    two = config(kafka.bootstrap, schema, first, later)
    assert status(gateway, first, '{"id": 1}') == 201
    assert status(gateway, first, '{"id": "1"}') == 422
    assert status(gateway, later, '{"id": 1}') == 404
    # A schema alone: the configuration has the same text as before.
    mounted.renew({"headgate.toml": one, "id.json": numbers_of("string")})
    child.wait_until(lambda: status(gateway, first, '{"id": "1"}') == 201, _DEADLINE_S)
    mounted.renew({"headgate.toml": two, "id.json": numbers_of("string")})
    child.wait_until(lambda: status(gateway, later, '{"id": "1"}') == 201, _DEADLINE_S)
    mounted.renew({"headgate.toml": f"{one}\n[nonsense]\n", "id.json": numbers_of("integer")})
    child.wait_until(lambda: "reload refused" in gateway.log(), _DEADLINE_S)
    assert status(gateway, later, '{"id": "1"}') == 201
    mounted.renew({"headgate.toml": one, "id.json": numbers_of("integer")})
    child.wait_until(lambda: status(gateway, first, '{"id": 1}') == 201, _DEADLINE_S)
    assert status(gateway, first, '{"id": "1"}') == 422
