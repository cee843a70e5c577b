"""What cannot be done for a replay is said in the words of HTTP."""

from __future__ import annotations

import pytest

from headgate.config.settings import Settings
from headgate.model.outcome import Reason, Refused
from headgate.replays.offsets import Offsets
from headgate.replays.registry import record
from headgate.replays.tiers import SecondTiers, asking


async def test_what_the_registry_would_not_take_is_too_large() -> None:
    """Ten thousand long keys fit into a body and not into a record."""
    with pytest.raises(Refused) as refused:
        async with asking("old"):
            record("x", "spec", {"asked": {"filter": {"keys": ["k" * 95] * 10_000}}})
    assert refused.value.failure.reason is Reason.TOO_LARGE
    assert "ask for less" in refused.value.failure.detail


async def test_partitions_without_offsets_are_counted_as_well() -> None:
    asked = {
        "topic": "orders",
        "to": "backfill",
        "offsets": {str(one): [] for one in range(10_001)},
    }
    with pytest.raises(Refused) as refused:
        await Offsets(SecondTiers(Settings)).translate(asked)
    assert refused.value.failure.reason is Reason.MALFORMED
    assert "at most 10000" in refused.value.failure.detail
