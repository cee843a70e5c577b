"""Facts of held events that became no record: superseded in a window, or unchanged at its end."""

from collections.abc import Sequence

from headgate.audits.facts import Facts
from headgate.core.coalescing.window import Window
from headgate.core.outcome import Name
from headgate.core.topics.policy import TopicPolicy


def report(
    facts: Facts | None,
    policy: TopicPolicy | None,
    topic: str,
    outcome: str,
    windows: Sequence[Window],
) -> None:
    """outcome: of each window's newest event. Nothing where the topic asks for no facts.

    A window keeps no single events, so that those of a producer that were superseded are one fact.
    """
    if facts is None or policy is None or not policy.facts:
        return
    for window in windows:
        last = window.last
        for producer, sum_of in window.superseded.items():
            facts.coalesced(producer, topic, Name.SUPERSEDED, last.key, *sum_of)
        if outcome == Name.UNCHANGED:
            size = len(last.value or b"")
            facts.coalesced(last.producer, topic, Name.UNCHANGED, last.key, 1, size)
