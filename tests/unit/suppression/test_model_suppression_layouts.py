"""The model of several servers: no change is dropped, and each rule is needed for that."""

from __future__ import annotations

import pytest

from models.check_suppression_layouts import FAULT_SETS, TAKEN_OUT
from models.suppression_layouts import explore
from support.scale import scaled

# States within which each is found to be needed: breadth first, so these are the shortest traces.
LIMIT = 150_000


@pytest.mark.parametrize("name", FAULT_SETS)
@pytest.mark.parametrize("limit", scaled(8_000, 150_000))
def test_no_change_is_dropped(name: str, limit: int) -> None:
    found = explore(FAULT_SETS[name], limit)
    assert not found.broken, "\n".join(found.trace)


@pytest.mark.parametrize("name", TAKEN_OUT)
def test_each_rule_is_needed(name: str) -> None:
    found = explore(TAKEN_OUT[name].without(name), LIMIT)
    assert found.broken.startswith("S1"), (name, found.states)
