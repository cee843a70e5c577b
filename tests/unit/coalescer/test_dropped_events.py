"""Facts of held events, from the windows that they ended in."""

from __future__ import annotations

import json

from headgate.audits.facts import Facts
from headgate.coalescer.coalescer import report
from headgate.coalescer.windows import HeldEvent, Window
from headgate.model.outcome import OutcomeName
from support.gateway.fakes import NOW_MS, policy

ASKING, SILENT = policy(facts=True, facts_one_in=1000), policy()


def held(offset: int, producer: str, value: bytes) -> HeldEvent:
    return HeldEvent(offset, b"d1", value, (), 0, 0, producer, False, None, 100)


def window() -> Window:
    """Five events of two producers; the last one is cron's."""
    found = Window(held(0, "shop", b"1"))
    for offset, who in enumerate(["cron", "shop", "shop", "cron"], 1):
        found.take(held(offset, who, b"22"))
    return found


def told(outcome: str, policy: object = ASKING) -> list[tuple[str, str, str, int, int]]:
    facts = Facts(lambda: NOW_MS, lambda: 0.999)
    report(facts, policy, "deals", outcome, [window()])  # type: ignore[arg-type]
    rows = []
    for columns in facts.collect(everything=True):
        found = json.loads(columns.encoded())
        assert (found["topic"], found["one_in"]) == ("deals", 1)
        names = ("producer", "outcome", "key", "events", "bytes")
        rows += [tuple(row) for row in zip(*(found[name] for name in names), strict=True)]
    return rows


def test_superseded_events_are_one_fact_a_producer_and_never_sampled() -> None:
    expected = [("shop", "superseded", "d1", 3, 5), ("cron", "superseded", "d1", 1, 2)]
    assert told(OutcomeName.PUBLISHED) == expected
    assert told(OutcomeName.UNCHANGED) == [*expected, ("cron", "unchanged", "d1", 1, 2)]


def test_nothing_is_told_of_topics_that_do_not_ask() -> None:
    assert told(OutcomeName.UNCHANGED, SILENT) == []
    assert told(OutcomeName.UNCHANGED, None) == []
    report(None, ASKING, "deals", OutcomeName.UNCHANGED, [window()])


def test_what_an_earlier_owner_has_told_is_not_told_again() -> None:
    """A done mark lies behind the first events: who wrote it has counted and told them."""
    found = window()
    found.forget_superseded()
    facts = Facts(lambda: NOW_MS, lambda: 0.0)
    report(facts, ASKING, "deals", OutcomeName.PUBLISHED, [found])
    assert facts.collect(everything=True) == []
