"""The micro benchmark of suppression still runs: its store answers as the script does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from micro import suppression

if TYPE_CHECKING:
    import pytest


async def test_suppression_benchmark_measures_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suppression, "EVENTS", 64)
    monkeypatch.setattr(suppression, "ROUNDS", 1)
    assert await suppression.measure(-1, 8) > 0
    assert await suppression.measure(5, 8) > 0
