"""What cannot be done for a replay is said in the words of HTTP."""

from __future__ import annotations

import pytest

from headgate.core.outcome import Reason
from headgate.core.refusal import RefusalError
from headgate.core.replay import record
from headgate.replays.asked import asking


async def test_what_the_registry_would_not_take_is_too_large() -> None:
    """Ten thousand long keys fit into a body and not into a record."""
    with pytest.raises(RefusalError) as refused:
        async with asking("old"):
            record("x", "spec", {"asked": {"filter": {"keys": ["k" * 95] * 10_000}}})
    assert refused.value.failure.reason is Reason.TOO_LARGE
    assert "ask for less" in refused.value.failure.detail
