"""What both producers share."""

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from headgate_client.core.encode import Part
from headgate_client.hooks import Observer, tell_ended
from headgate_client.outcomes import Outcome

LaneOf: TypeAlias = Callable[[str, object], str | bytes | None]
WhenFull: TypeAlias = Literal["wait", "raise"]
LONGEST_WAIT_S = 3600.0  # of one wait, which takes no infinity


def lane_for(part: Part, topic: str, event: object, lane_of: LaneOf | None) -> bytes | None:
    """Return what the order of an event hangs on; None where nobody here knows its key."""
    if part.lane is not None or lane_of is None:
        return part.lane
    lane = lane_of(topic, event)
    return lane.encode() if isinstance(lane, str) else lane


def tell_by_topic(observer: Observer, outcomes: Iterable[Outcome]) -> None:
    """Report how events of several topics ended."""
    by_topic: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_topic.setdefault(outcome.topic, []).append(outcome)
    for topic, of_topic in by_topic.items():
        tell_ended(observer, topic, of_topic)
