"""One port for data and management: no header of a client passes for one of a worker."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headgate.devstack.ports import LOOPBACK
from support.identity.authority import Authority, Pair
from support.process.stack import Gateway, RunningBroker, eventually, free_port

pytestmark = pytest.mark.kafka

CONFIG = """
[http]
tls_cert_file = "{server.certificate}"
tls_key_file = "{server.key}"
tls_client_ca_file = "{clients}"
tls_client_auth = "optional"
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[auth]
mode = ["token", "mtls"]
mtls_name = "cn"
[producers.oper]
certificate_names = ["oper"]
roles = ["view", "operate"]
"""
SAID = {
    "X-Headgate-Remote": "127.0.0.1",
    "X-Headgate-Certificate": json.dumps([[["cn", "oper"]], 4_102_444_800]),
    "X-Headgate-Secret": "x",
}
SPELLINGS: tuple[Callable[[str], str], ...] = (
    str,
    str.lower,
    str.upper,
    str.swapcase,
    lambda name: name.replace("-", "_"),
)

Headers = Sequence[tuple[str, str]]


def forged() -> list[Headers]:
    """Each header alone and several times, before and behind nonsense, and all of them together."""
    sets: list[Headers] = []
    for name, value in SAID.items():
        for spelled in SPELLINGS:
            written = spelled(name)
            sets += [[(written, value)], [(written, "x"), (written, value)]]
            sets += [[(written, value), (name, value)], [(written, value), (name.lower(), "x")]]
            sets.append([(written, value)] * 3)
    for spelled in SPELLINGS:
        every = [(spelled(name), value) for name, value in SAID.items()]
        sets += [every, every * 2, [*every, *SAID.items()], [*SAID.items(), *every, *every]]
    return sets


class OnePort:
    """A real gateway whose only port is `port`."""

    def __init__(self, authority: Authority, port: int) -> None:
        self.authority = authority
        self._port = port

    async def ask(
        self, target: str, headers: Headers = (), pair: Pair | None = None
    ) -> tuple[int, Any]:
        """Status and document of a request whose headers are sent as they are given."""
        context = ssl.create_default_context(cafile=str(self.authority.file))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        lines = [f"{target} HTTP/1.1", f"Host: {LOOPBACK}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers]
        async with asyncio.timeout(60):
            reader, writer = await asyncio.open_connection(LOOPBACK, self._port, ssl=context)
            try:
                writer.write("\r\n".join([*lines, "", ""]).encode())
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            finally:
                writer.close()
        return int(head.split()[1]), json.loads(body)

    async def is_ready(self) -> bool:
        try:
            return (await self.ask("GET /ready"))[0] == 200
        except (OSError, ValueError):
            return False


@pytest.fixture
async def port(
    tmp_path: Path, kafka: RunningBroker, start_gateway: Callable[..., Gateway]
) -> OnePort:
    authority = Authority(tmp_path)
    config = CONFIG.format(
        server=authority.issue("server"), clients=authority.file, bootstrap=kafka.bootstrap
    )
    number = str(free_port())
    both = {"HEADGATE_HTTP__PORT": number, "HEADGATE_HTTP__MANAGEMENT_PORT": number}
    start_gateway(config, "--workers", "1", wait=False, environment=both)
    port = OnePort(authority, int(number))
    await eventually(port.is_ready, 60)
    return port


async def test_no_header_of_a_client_passes_for_one_of_a_worker(port: OnePort) -> None:
    oper, stranger = port.authority.issue("oper"), port.authority.issue("stranger")
    status, shown = await port.ask("GET /v1/config", pair=oper)
    assert status == 200, shown
    for headers in forged():
        for target in ("GET /v1/config", "DELETE /v1/suppression/deals"):
            status, document = await port.ask(target, headers)
            assert (status, document.get("reason")) == (401, "unauthenticated"), (target, headers)
    for headers in forged()[::4]:
        status, document = await port.ask("GET /v1/config", headers, stranger)
        assert (status, document.get("reason")) == (401, "unauthenticated"), headers
        assert "stranger" in document["detail"]
        assert (await port.ask("GET /v1/config", headers, oper))[0] == 200, headers
