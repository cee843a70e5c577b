"""The rules of the layout in Python and in Lua, side by side: the same answers, the same bytes."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.redis.script import RedisScript, script_text
from headgate.suppression.rules import LayoutCall, LayoutReply
from support.doubles.suppression_rules import StoredKey, announce_layout
from support.process.connecting import reach
from support.process.stack import RunningRedis

pytestmark = pytest.mark.redis
LAYOUTS = [bytes([number]) * 16 for number in range(40)]
SPAN_MS = st.sampled_from([0.0, 1.0, 60_000.0])
LAYOUT = st.sampled_from(LAYOUTS[:3]) | st.sampled_from(LAYOUTS)
CALLS = st.lists(st.tuples(LAYOUT, SPAN_MS, SPAN_MS, st.sampled_from([1, 1, 1, 2])), max_size=50)


@given(CALLS)
async def test_both_say_and_leave_the_same(redis_server: RunningRedis, calls: list) -> None:  # type: ignore[type-arg]
    script = RedisScript(redis_server.url, 2000, script_text("suppression", "layout"))
    await reach(script)
    name, store = b"layout:" + os.urandom(8).hex().encode(), dict[bytes, StoredKey]()
    try:
        for layout, alive_ms, keep_ms, process in calls:
            call, identity = LayoutCall(name, layout, alive_ms, keep_ms), bytes([process]) * 16
            now, noisy, found = await script.evaluate([1, name, call.packed(identity)])
            expected = announce_layout(store, call, identity, now)
            assert LayoutReply(now, noisy, found == 1) == expected
            assert script.connection is not None
            await script.connection.send_command("GET", name)
            assert await script.connection.read_response() == store[name].value
    finally:
        await script.close()
