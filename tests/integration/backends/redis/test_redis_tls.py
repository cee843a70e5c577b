"""Redis over TLS with a private authority, by every client of ours."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.backends.redis.errors import StoreError
from headgate.backends.redis.identity import RedisIdentityStore
from headgate.backends.redis.pause_store import RedisPauses
from headgate.backends.redis.suppression import RedisStore
from headgate.check.connect import _check_redis
from headgate.check.finding import Level
from headgate.config.backend_settings import RedisSettings
from headgate.devstack.ports import LOOPBACK
from support.kafka.secured_broker import ClientCertificate
from support.process.stack import RunningRedis

pytestmark = pytest.mark.redis


@asynccontextmanager
async def behind_tls(target: int, certificate: ClientCertificate) -> AsyncIterator[int]:
    """A port that speaks TLS and hands on to the target's, as Redis does where it is built so."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.file, certificate.key)

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside, outside = await asyncio.open_connection(LOOPBACK, target)
        await asyncio.gather(copy(reader, outside), copy(inside, writer), return_exceptions=True)

    server = await asyncio.start_server(accept, LOOPBACK, 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_an_authority_of_our_own(redis_server: RunningRedis, tmp_path: Path) -> None:
    certificate = ClientCertificate(tmp_path, "redis")
    async with behind_tls(redis_server.port, certificate) as port:
        stranger = RedisSettings(url=f"rediss://{LOOPBACK}:{port}/0?health_check_interval=0")
        known = replace(stranger, ssl_cafile=str(certificate.authority))
        for settings, is_known in ((known, True), (stranger, False)):
            assert settings.address is not None
            for kind in (RedisStore, RedisIdentityStore):
                store = kind(settings.address, 5_000)
                if is_known:
                    await store.connect()
                else:
                    with pytest.raises(StoreError):
                        await store.connect()
                await store.close()
            pauses = RedisPauses(settings.address, 5.0)
            if is_known:
                assert await pauses.intents("nobody") == []
            else:
                with pytest.raises(OSError, match="Redis"):
                    await pauses.intents("nobody")
            await pauses.close()
            worst = max(one.level for one in await _check_redis(settings))
            assert (worst is Level.ERROR) is not is_known
