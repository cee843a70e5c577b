"""The model of a topic that is made again: nothing breaks, and each rule is there for a reason."""

from __future__ import annotations

from models.suppression_recreation import Rules, explore


def test_with_all_rules_nothing_breaks() -> None:
    found = explore(Rules())
    assert (found.broken, found.trace) == ("", ())
    assert found.states > 20_000


def test_without_the_rule_for_partitions_that_are_gone_a_key_is_never_unchanged_again() -> None:
    found = explore(Rules(gone=False))
    assert found.broken == "nothing is unchanged any more"
    assert found.trace == ("A at 0 unknown", "made again with 1")


def test_without_the_mark_by_name_an_older_content_is_unchanged() -> None:
    found = explore(Rules(mark=False))
    assert found.broken.startswith("unchanged, but the newest is")
    assert any("spooled" in step for step in found.trace)
