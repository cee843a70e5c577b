"""Tells the log when the topics of a process begin and end to be published uncompared."""

import logging
from collections.abc import Mapping

from headgate.core.suppression.states import AWAY, ON, QUARANTINE, TopicSuppression
from headgate.suppression.namespaces import Namespaces

_log = logging.getLogger("headgate.suppression.states")

_MAX_NAMED = 5  # topics in a line of the log


def states_of(
    namespaces: Namespaces, is_away: bool, now_s: float, doubts: bool = False
) -> dict[str, TopicSuppression]:
    """Of each topic that is compared by these. is_away: Redis does not answer.  doubts: nothing is
    believed, for it is not known which servers other gateways have."""
    found = {}
    for scope in namespaces.opened:
        opens_s = namespaces.opens_s(scope)
        if is_away:
            state = TopicSuppression(AWAY)
        elif doubts or scope in namespaces.doubted:
            state = TopicSuppression(QUARANTINE)
        elif opens_s is None or now_s < opens_s:
            state = TopicSuppression(QUARANTINE, None if opens_s is None else opens_s - now_s)
        else:
            state = TopicSuppression(ON)
        found[scope.topic] = state
    return found


class StateLog:
    """One line when topics begin to be published without comparison, one when that ends."""

    def __init__(self) -> None:
        self._paused: set[str] = set()

    def note(self, states: Mapping[str, TopicSuppression]) -> None:
        """Call it now and then; topics that are AWAY have a line of their own elsewhere."""
        paused = {topic for topic, one in states.items() if one.state == QUARANTINE}
        if begun := paused - self._paused:
            until_s = max(states[topic].until_s or 0.0 for topic in begun)
            span = (
                f"for {until_s:.0f} s unless it is extended"
                if until_s
                else "until Redis has answered"
            )
            _log.warning(
                "suppression: %s: quarantine: all events are published, %s (Redis is new or lost "
                "its state, or other gateways use other rules or other servers)",
                _named(begun), span,
            )  # fmt: skip
        if ended := {topic for topic in self._paused - paused if _is_on(states.get(topic))}:
            _log.info("suppression: %s: active, the quarantine is over", _named(ended))
        self._paused = paused


def _is_on(state: TopicSuppression | None) -> bool:
    return state is not None and state.state == ON


def _named(topics: set[str]) -> str:
    names = sorted(topics)
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
