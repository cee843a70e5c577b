"""Redis over TLS with a private authority, by every client of ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headgate.check.connect import _check_redis
from headgate.check.rules import Level
from headgate.config.backend_settings import RedisSettings
from headgate.devstack.ports import LOOPBACK
from headgate.idempotency.store import RedisIdentityStore
from headgate.redis.pauses import RedisPauses
from headgate.redis.script import StoreError
from headgate.suppression.store import RedisStore
from support.identity.authority import Pair
from support.kafka.secured_broker import ClientCertificate
from support.process.secured_redis import behind_tls
from support.process.stack import RunningRedis

pytestmark = pytest.mark.redis


async def test_an_authority_of_our_own(redis_server: RunningRedis, tmp_path: Path) -> None:
    certificate = ClientCertificate(tmp_path, "redis")
    async with behind_tls(redis_server.port, Pair(certificate.file, certificate.key)) as port:
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
