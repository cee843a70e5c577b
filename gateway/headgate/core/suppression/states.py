"""Whether a topic that suppresses does so now, as one suppressor or several of them see it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

ON, QUARANTINE, AWAY = "on", "quarantine", "away"
STATES = (ON, QUARANTINE, AWAY)  # from good to bad
OFF = "off"  # shown of a topic whose policy does not suppress


class TopicSuppression(NamedTuple):
    """A topic that suppresses by its policy.

    state: ON.  QUARANTINE: all is published, for what Redis knows may be incomplete; until_s: for
    so many seconds more, if nothing happens before, None = Redis was not asked yet.  AWAY: Redis
    does not answer.
    """

    state: str
    until_s: float | None = None


def worst(seen: Iterable[Mapping[str, TopicSuppression]]) -> dict[str, TopicSuppression]:
    """Of each topic the worst that anybody sees."""
    found: dict[str, TopicSuppression] = {}
    for states in seen:
        for topic, one in states.items():
            found[topic] = max(found.get(topic, one), one, key=_badness)
    return found


def _badness(one: TopicSuppression) -> tuple[int, float]:
    return STATES.index(one.state), one.until_s or 0.0


def state_rows(states: Mapping[str, TopicSuppression]) -> list[tuple[str, str, bool]]:
    """Return (topic, state, whether it is the topic's state now) for every topic and state."""
    return [
        (topic, state, state == current.state)
        for topic, current in states.items()
        for state in STATES
    ]
