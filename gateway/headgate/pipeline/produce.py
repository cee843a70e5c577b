"""The last stage before Kafka: a record gets what only a written record needs, and its lane.

What does not fit goes by the topic's oversize policy first.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from headgate.backends.base import Lanes
from headgate.core.ids import EventIds
from headgate.core.placing import place_again
from headgate.core.publish import Publish
from headgate.core.record import EVENT_ID
from headgate.core.topics.topic import TopicState


class Oversize(Protocol):
    """Where all events of a topic with an oversize policy go, whatever their size: a small one
    must not overtake a large one of its key (`oversize.stage`)."""

    @property
    def is_busy(self) -> bool:
        """Whether an event waits there that later ones of its key must not overtake."""
        ...

    def take(self, publish: Publish) -> None: ...

    def drop(self, publish: Publish) -> None:
        """One of them was given up before any of it was handed over."""
        ...


class Produce:
    """ids: for events that came without one.  state_of: a topic as Kafka last described it."""

    def __init__(
        self, ids: EventIds, lanes: Lanes, state_of: Callable[[str], TopicState | None]
    ) -> None:
        self._ids = ids
        self._lanes = lanes
        self._state_of = state_of
        self._oversize: Oversize | None = None

    def use(self, oversize: Oversize) -> None:
        """Without this, what does not fit is refused by Kafka. The records that it makes of an
        event come back to here, so it is built after this."""
        self._oversize = oversize

    def take(self, publishes: list[Publish]) -> None:
        """Events of one request, in order."""
        if not self._may_wait(publishes[0]):
            self.hand_over(publishes)
            return
        assert self._oversize is not None
        for publish in publishes:
            self._oversize.take(publish)

    def one(self, publish: Publish) -> None:
        """One event, or one record of an event that was too large."""
        if self._oversize is None or publish.owner is not None or not self._may_wait(publish):
            self.hand_over((publish,))
        else:
            self._oversize.take(publish)

    def _may_wait(self, publish: Publish) -> bool:
        """Whether the oversize policy takes it: its topic has one, or had one until a reload, and
        events of then still wait."""
        oversize, common = self._oversize, publish.common
        if oversize is None or common is None:
            return False
        return bool(common.route.strategies) or oversize.is_busy

    def hand_over(self, publishes: Sequence[Publish]) -> None:
        """These fit."""
        for publish in publishes:
            common = publish.common
            assert common is not None  # every event of a request has it
            event_id = publish.event_id
            if event_id is None:
                event_id = publish.event_id = self._ids.take(common.now_ms)
            record = publish.record
            record.headers = [*record.headers, (EVENT_ID, event_id.encode()), *common.headers]
            self.put(publish, common.route.lane)

    def put(self, publish: Publish, state: TopicState) -> None:
        """Put a finished record into its lane. state: the topic when the event came. The topic may
        have been recreated, or may have grown, while the event waited."""
        now = self._state_of(state.name)
        if now is not state and now is not None:
            place_again(publish, now)
        self._lanes.put(publish)

    def drop(self, publish: Publish) -> None:
        """It was given up in its lane, or before."""
        if self._oversize is not None:
            self._oversize.drop(publish)
