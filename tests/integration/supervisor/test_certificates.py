"""`headgate serve` with real processes: callers in every way, and new certificates."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import psutil
import pytest

from headgate.devstack.ports import LOOPBACK
from support.identity.authority import Authority, Pair
from support.identity.issuer import AUDIENCE, ISSUER, Issuer, JwksServer, serving
from support.process.stack import Gateway, RunningBroker, eventually

pytestmark = pytest.mark.kafka

CONFIG = """
[http]
tls_cert_file = "{server.certificate}"
tls_key_file = "{server.key}"
tls_client_ca_file = "{clients}"
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[auth]
mode = ["token", "jwt", "mtls"]
jwt_issuer = "{issuer}"
jwt_audience = "{audience}"
jwt_jwks_url = "{jwks}"
jwt_refresh_ms = 1000
jwt_unknown_key_ms = 100
jwt_topics_claim = "topics"
jwt_roles_claim = "roles"
mtls_name = "uri"
[producers.machine]
certificate_names = ["spiffe://prod/machine"]
topics = ["{topic}"]
[producers.probe]
certificate_names = ["spiffe://prod/probe"]
roles = ["view"]
[topics."{topic}"]
key = ["/id"]
"""
EXPIRY = "headgate_certificate_expiry_timestamp_seconds"
_LEFT = (OSError, http.client.HTTPException)


class World:
    """A gateway with an authority of its own, and the issuer of its callers' tokens."""

    def __init__(self, folder: Path, issuer: Issuer, jwks: JwksServer, topic: str) -> None:
        self.authority = Authority(folder)
        self.clients = folder / "clients.pem"
        self.clients.write_bytes(self.authority.file.read_bytes())
        self.server = self.authority.issue("server")
        self.issuer, self.jwks, self.topic = issuer, jwks, topic
        self.gateway: Gateway

    def config(self, bootstrap: str) -> str:
        return CONFIG.format(
            server=self.server,
            clients=self.clients,
            bootstrap=bootstrap,
            issuer=ISSUER,
            audience=AUDIENCE,
            jwks=self.jwks.url,
            topic=self.topic,
        )

    def connect(
        self, port: int, pair: Pair | None = None, trust: Path | None = None
    ) -> HTTPSConnection:
        context = ssl.create_default_context(cafile=str(trust or self.authority.file))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return HTTPSConnection(LOOPBACK, port, timeout=60, context=context)

    def ask(
        self, path: str, pair: Pair | None = None, token: str | None = None, body: bytes = b""
    ) -> tuple[int, Any]:
        """The answer of the port for this path, on a connection of its own."""
        is_post = path.endswith("/events")
        gateway = self.gateway
        connection = self.connect(gateway.port if is_post else gateway.management_port, pair)
        try:
            return ask(connection, path, token, body)
        finally:
            connection.close()

    def post(self, pair: Pair | None = None, token: str | None = None) -> int:
        return self.ask(f"/v1/topics/{self.topic}/events", pair, token, b'{"id":1}')[0]

    def is_ready(self) -> bool:
        try:
            return self.ask("/ready")[0] == 200
        except _LEFT:
            return False

    def reloads(self, result: str) -> int:
        text = self.ask("/metrics")[1]
        found = re.search(rf'^headgate_tls_reloads_total\{{result="{result}"\}} (\S+)$', text, re.M)
        assert found is not None
        return int(float(found[1]))

    def is_renewed(self) -> bool:
        """Whether the certificates last read are active, by the gateway's metric."""
        found = re.search(
            r"^headgate_tls_last_reload_successful (\S+)$", self.ask("/metrics")[1], re.M
        )
        assert found is not None
        return found[1] == "1.0"

    def lasts_s(self) -> float:
        """How long the certificate lasts, by what the gateway says."""
        [end] = re.findall(rf"^{EXPIRY} (\S+)$", self.ask("/metrics")[1], re.M)
        return float(end) - time.time()

    def shown(self, port: int) -> bytes:
        """The certificate that a new connection gets."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = HTTPSConnection(LOOPBACK, port, timeout=60, context=context)
        try:
            connection.connect()
            found: bytes | None = connection.sock.getpeercert(binary_form=True)
            assert found is not None
            return found
        finally:
            connection.close()

    def all_show(self, wanted: bytes) -> bool:
        """Both ports, every worker of the data port: connections are spread over them."""
        ports = [self.gateway.management_port] + [self.gateway.port] * 8
        return {self.shown(port) for port in ports} == {wanted}


def ask(
    connection: HTTPSConnection, path: str, token: str | None = None, body: bytes = b""
) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"} if body else {}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    connection.request("POST" if body else "GET", path, body, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    is_json = "json" in (answer.getheader("Content-Type") or "")
    return answer.status, json.loads(text) if is_json else text


def der(pair: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.certificate.read_text())


@pytest.fixture
def issuer() -> Issuer:
    found = Issuer()
    found.add("first")
    return found


@pytest.fixture
def jwks(issuer: Issuer) -> Iterator[JwksServer]:
    with serving(issuer) as server:
        yield server


@pytest.fixture
async def world(
    tmp_path: Path,
    issuer: Issuer,
    jwks: JwksServer,
    kafka: RunningBroker,
    topic_name: str,
    start_gateway: Callable[..., Gateway],
) -> World:
    kafka.create_topic(topic_name, 2)
    found = World(tmp_path, issuer, jwks, topic_name)
    found.gateway = start_gateway(found.config(kafka.bootstrap), "--workers", "2", wait=False)
    await eventually(found.is_ready, 60)
    return found


async def test_callers_of_every_kind_reach_kafka(world: World) -> None:
    machine = world.authority.issue("m", uri="spiffe://prod/machine")
    probe = world.authority.issue("p", uri="spiffe://prod/probe")
    stranger = world.authority.issue("machine", uri="spiffe://prod/other")
    topics = {"topics": [world.topic], "roles": ["produce"]}
    token = world.issuer.token("first", sub="robot", **topics)
    assert world.post(machine) == 201
    assert world.post(token=token) == 201
    assert world.post(probe) == 403
    assert world.post() == world.post(stranger) == 401
    elsewhere = world.issuer.token("first", sub="robot", topics=["other"], roles=["produce"])
    assert world.post(token=elsewhere) == 403
    assert world.post(token=world.issuer.token("first", sub="robot", exp=1, **topics)) == 401
    viewer = world.issuer.token("first", sub="ann", roles=["view"])
    assert world.ask("/v1/topics", token=viewer)[0] == world.ask("/v1/topics", probe)[0] == 200
    assert world.ask("/v1/topics", machine)[0] == 403
    assert world.ask("/v1/topics")[0] == 401


async def test_keys_are_rotated_while_it_runs(world: World) -> None:
    said: dict[str, Any] = {"sub": "robot", "topics": [world.topic], "roles": ["produce"]}
    old = world.issuer.token("first", **said)
    assert world.post(token=old) == 201
    world.issuer.add("second", "RS256")
    new = world.issuer.token("second", **said)
    await eventually(lambda: world.post(token=new) == 201)
    del world.issuer.keys["first"]
    # Workers fetch each for themselves; all have when none takes it several times in a row.
    await eventually(lambda: all(world.post(token=old) == 401 for _ in range(8)), 30)
    assert world.post(token=new) == 201
    world.jwks.status = 503
    asked = world.jwks.asked
    await eventually(lambda: world.jwks.asked > asked + 4, 30)
    assert world.post(token=new) == 201, "an issuer that is away does not matter yet"


async def test_new_certificates_for_new_connections(world: World) -> None:
    gateway = world.gateway
    before = der(world.server)
    assert world.all_show(before)
    assert 0 < world.lasts_s() < 86_400
    machine = world.authority.issue("m", uri="spiffe://prod/machine")
    path = f"/v1/topics/{world.topic}/events"
    running = world.connect(gateway.port, machine)
    assert ask(running, path, body=b'{"id":1}')[0] == 201
    world.authority.issue("server", lasts=timedelta(days=90), into=world.server)
    assert world.all_show(before), "not before it is told"
    gateway.reload()
    await eventually(lambda: world.all_show(der(world.server)), 30)
    assert world.reloads("applied") == 1
    assert world.lasts_s() == pytest.approx(90 * 86_400, abs=600)
    assert ask(running, path, body=b'{"id":2}')[0] == 201, "connections that were open go on"
    running.close()
    gateway.reload()
    await eventually(lambda: gateway.child.log.read_text().count("configuration reloaded") == 2)
    assert world.reloads("applied") == 1, "what has not changed is not counted"
    viewer = world.issuer.token("first", sub="ann", roles=["view"])
    _, log = world.ask("/v1/log?kind=reloaded,certificates_reloaded,started", token=viewer)
    kinds = ["reloaded", "reloaded", "certificates_reloaded", "started"]  # said once all is done
    assert [entry["kind"] for entry in log["entries"]] == kinds


async def test_a_bad_pair_is_refused_and_a_dead_worker_comes_back(world: World) -> None:
    gateway = world.gateway
    good = der(world.server)
    kept = world.server.key.read_bytes()
    other = world.authority.issue("other")
    assert world.is_renewed()
    for bad in (other.key.read_bytes(), b"", b"nonsense"):
        world.server.key.write_bytes(bad)
        refused = world.reloads("refused")
        gateway.reload()
        await eventually(lambda refused=refused: world.reloads("refused") == refused + 1, 30)
    assert world.all_show(good)
    said = gateway.child.log.read_text()
    assert "certificates refused, the old ones stay active: http.tls_key_file: " in said
    workers = [one.pid for one in psutil.Process(gateway.pid).children()]
    psutil.Process(workers[0]).kill()

    def is_replaced() -> bool:
        now = {one.pid for one in psutil.Process(gateway.pid).children()}
        return workers[0] not in now and len(now) >= len(workers) and world.is_ready()

    await eventually(is_replaced, 60)
    assert world.all_show(good)
    assert not world.is_renewed()
    world.server.key.write_bytes(kept)  # the active pair again: nothing to apply
    gateway.reload()
    await eventually(world.is_renewed, 30)
    world.server.key.write_bytes(kept)
    world.authority.issue("server", into=world.server)
    gateway.reload()
    await eventually(lambda: world.all_show(der(world.server)), 30)


async def test_an_authority_that_is_taken_away_lets_nobody_new_in(
    world: World, tmp_path: Path
) -> None:
    machine = world.authority.issue("m", uri="spiffe://prod/machine")
    assert world.post(machine) == 201
    (tmp_path / "new").mkdir()
    following = Authority(tmp_path / "new", "following")
    world.clients.write_bytes(following.file.read_bytes())
    world.gateway.reload()
    moved = following.issue("m", uri="spiffe://prod/machine")

    def comes_in(pair: Pair) -> bool:
        try:
            return world.post(pair) == 201
        except _LEFT:
            return False

    await eventually(lambda: all(comes_in(moved) for _ in range(8)), 30)
    # A worker that has not reloaded yet takes the former authority for a moment.
    await eventually(lambda: not any(comes_in(machine) for _ in range(8)), 30)


async def test_no_client_is_refused_while_certificates_change(world: World) -> None:
    """Connections that are made all the time, through several changes."""
    machine = world.authority.issue("m", uri="spiffe://prod/machine")
    failed: list[BaseException | int] = []
    done, stop = [0], threading.Event()

    def keep_posting() -> None:
        while not stop.is_set():
            try:
                status = world.post(machine)
            except _LEFT as error:
                failed.append(error)
            else:
                done[0] += 1
                if status != 201:
                    failed.append(status)

    threads = [threading.Thread(target=keep_posting) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            world.authority.issue("server", into=world.server)
            world.gateway.reload()
            await eventually(lambda: world.all_show(der(world.server)), 30)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failed == []
    assert done[0] > 10
