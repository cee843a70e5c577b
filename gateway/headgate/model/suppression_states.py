# Not compiled: msgspec reads annotations, which a compiled NamedTuple loses.
"""States of the suppression of topics, as workers send them to the parent."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class TopicSuppression(NamedTuple):
    """A topic that suppresses by its policy.

    Attributes:
        state: ON; QUARANTINE: everything is published, because the data in Redis may be
            incomplete; AWAY: Redis does not answer.
        until_s: The remaining seconds of a quarantine; None if Redis was not asked yet.
    """

    state: str
    until_s: float | None = None


ON, QUARANTINE, AWAY = "on", "quarantine", "away"
STATES = (ON, QUARANTINE, AWAY)  # from good to bad
OFF = "off"  # shown for a topic whose policy does not suppress


def worst(seen: Iterable[Mapping[str, TopicSuppression]]) -> dict[str, TopicSuppression]:
    """Return the worst state of each topic."""
    worst_of: dict[str, TopicSuppression] = {}
    for states in seen:
        for topic, state in states.items():
            worst_of[topic] = max(worst_of.get(topic, state), state, key=_badness)
    return worst_of


def _badness(state: TopicSuppression) -> tuple[int, float]:
    return STATES.index(state.state), state.until_s or 0.0


def state_rows(states: Mapping[str, TopicSuppression]) -> list[tuple[str, str, bool]]:
    """Return (topic, state, is current) for every topic and every possible state."""
    return [
        (topic, state, state == current.state)
        for topic, current in states.items()
        for state in STATES
    ]
