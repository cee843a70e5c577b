"""A real Redis that speaks TLS and knows its users (ACL)."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from headgate.devstack.child import Child
from headgate.devstack.ports import LOOPBACK
from headgate.devstack.servers import answers_ping, find_redis
from support.identity.authority import Pair
from support.network.accepting import accepting
from support.process.stack import free_port

ADMIN = "admin-password"


@asynccontextmanager
async def behind_tls(target: int, pair: Pair) -> AsyncIterator[int]:
    """A port that speaks TLS and hands on to the target's, as Redis does where it is built so."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(65_536):
                writer.write(piece)
                await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside, outside = await asyncio.open_connection(LOOPBACK, target)
        await asyncio.gather(copy(reader, outside), copy(inside, writer), return_exceptions=True)

    async with accepting(accept, context=context) as port:
        yield port


@asynccontextmanager
async def secured_redis(
    folder: Path, pair: Pair, authority: Path, users: Sequence[str]
) -> AsyncIterator[tuple[int, int]]:
    """The port with TLS and the one without. users: rules as Redis' `user` directive has them;
    beside them there is `admin`, who may do anything. Nobody else comes in.

    A Redis that was built without TLS gets it from a relay in front of it.
    """
    binary, plain, tls = find_redis(), free_port(), free_port()
    speaks_tls = b"tls-ca-cert-file" in binary.read_bytes()
    lines = [
        f"bind {LOOPBACK}",
        f"port {plain}",
        f"dir {folder}",
        'save ""',
        "maxmemory-policy noeviction",
        "user default on nopass -@all +ping",
        f"user admin on >{ADMIN} ~* &* +@all",
        *(f"user {rule}" for rule in users),
    ]
    if speaks_tls:
        lines += [
            f"tls-port {tls}",
            f"tls-cert-file {pair.certificate}",
            f"tls-key-file {pair.key}",
            f"tls-ca-cert-file {authority}",
            "tls-auth-clients no",
        ]
    config = folder / "redis.conf"
    config.write_text("\n".join(lines) + "\n")
    child = Child(
        f"redis on port {plain}",
        [str(binary), str(config)],
        folder / "redis.log",
        signal_on_parent_death=signal.SIGTERM,
    )
    try:
        child.wait_until(lambda: answers_ping(plain), 20.0)
        if speaks_tls:
            yield tls, plain
        else:
            async with behind_tls(plain, pair) as relay:
                yield relay, plain
    finally:
        child.kill()
