"""Why Redis does not answer, in words that clients may see."""

from __future__ import annotations

import socket

import pytest

from headgate.redis.script import RedisScript, StoreError

LOOPBACK = "127.0.0.1"


async def words_of(url: str) -> str:
    script = RedisScript(url, 100, "return 1")
    with pytest.raises(StoreError) as caught:
        await script.connect()
    await script.close()
    return caught.value.in_words


async def test_closed_port_of_redis_is_explained() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
    assert await words_of(f"redis://{LOOPBACK}:{port}/0") == "nothing listens there"


async def test_the_name_is_unknown() -> None:
    assert await words_of("redis://no-such-host.invalid:6379/0") == "the host name is unknown"


async def test_a_black_hole() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        assert await words_of(f"redis://{LOOPBACK}:{port}/0") == "nothing came in time"
