"""The model of a file that changes while events are held: what each rule and step is for."""

from __future__ import annotations

import pytest

from models.coalescing_changes import Rules, search


def test_with_the_held_topic_as_the_rule_nothing_is_lost_and_nothing_goes_back() -> None:
    states, way = search(Rules("existence"))
    assert way == []
    assert states > 30_000  # it looked


@pytest.mark.parametrize(
    ("rules", "last"),
    [
        (Rules("option"), "3 is held and never published"),
        # an empty H proves nothing: a record may land in it later than every timeout
        (Rules("lag"), "O goes back behind 2: [2, 1]"),
        # H is made while a gateway without the option has not seen it
        (Rules("existence", steps=False), "O goes back behind 2: [2, 1]"),
    ],
)
def test_every_other_rule_breaks_something(rules: Rules, last: str) -> None:
    assert search(rules)[1][-1] == last
