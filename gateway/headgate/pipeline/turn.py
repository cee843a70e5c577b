"""Gathers what arrived in one turn of the event loop, by topic: the batch that goes on from here.

However many connections the events came on, the stages behind this are called once for each topic
and turn. Within a topic the events keep the order in which they came.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from headgate.backends.base import Lanes
from headgate.core.ids import EventIds
from headgate.core.outcome import Failure, Reason
from headgate.core.placing import place_again
from headgate.core.publish import Publish, Stage
from headgate.core.record import EVENT_ID
from headgate.core.topics.route import Route
from headgate.core.topics.topic import TopicState

log = logging.getLogger("headgate.turn")
_BUG: Final = Failure(Reason.INTERNAL, "an internal error; nothing was written")
_NEW: Final = Stage.NEW


def at_end_of_turn(call: Callable[[], None]) -> None:
    """Call it once everything that is ready in this turn has run."""
    asyncio.get_running_loop().call_soon(call)


class Turn:
    """schedule: see `at_end_of_turn`.  go_on: takes events of one topic.  refuse: told of each
    event that did not get that far, by our mistake.
    """

    def __init__(
        self,
        schedule: Callable[[Callable[[], None]], object],
        go_on: Callable[[list[Publish]], None],
        refuse: Callable[[Publish, Failure], None],
    ) -> None:
        self._schedule = schedule
        self._go_on = go_on
        self._refuse = refuse
        self._batches: dict[str, list[Publish]] = {}

    def add(self, route: Route, started: list[Publish]) -> None:
        """Events of one request, in order."""
        topic = route.state.name
        batch = self._batches.get(topic)
        if batch is not None:
            if _route_of(batch) is route:
                batch += started
                return
            self.flush_topic(
                topic
            )  # the topic goes by other rules now, and events keep their order
        is_first = not self._batches
        self._batches[topic] = started.copy()  # the ticket keeps the list
        if is_first:
            self._schedule(self.flush)

    def flush(self) -> None:
        """Go on with all that was gathered, the topic that came first first."""
        batches, self._batches = self._batches, {}
        for batch in batches.values():
            self._end(batch)

    def flush_topic(self, topic: str) -> None:
        """Go on with what was gathered of a topic: other events of it take another way, and must
        not overtake."""
        batch = self._batches.pop(topic, None)
        if batch is not None:
            self._end(batch)

    def _end(self, batch: list[Publish]) -> None:
        try:
            self._go_on(batch)
        except Exception:  # the outermost frame of these events
            log.exception("batch of events failed")
            for publish in batch:
                if publish.stage is _NEW:
                    self._refuse(publish, _BUG)


def _route_of(batch: list[Publish]) -> Route:
    common = batch[0].common
    assert common is not None  # it came with a request
    return common.route


# The last stage before Kafka: a record gets what only a written record needs, and its lane.
#
# What does not fit goes by the topic's oversize policy first.


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


# Lets the events of one key go on in the order in which they came, whatever each waits for.
#
# Something may have to be done for an event off the event loop (compare a large document, store a
# blob) before it is reserved. A later event of its key that needs nothing must not overtake it.


_Key = tuple[str, bytes]  # topic, key


class _Line:
    """The events of one key, in order of arrival, and whether each still waits."""

    __slots__ = ("is_moving", "waits")

    def __init__(self) -> None:
        self.waits: OrderedDict[Publish, bool] = OrderedDict()  # any of them can leave in O(1)
        self.is_moving = False


class InOrder:
    """One for each step that some events wait for.

    go_on: takes an event whose turn it is. It may call everything here: an event that enters
    meanwhile goes on after those of its key that came before it.

    What stands here was admitted and is not answered yet, so admission.in_flight_max_events
    bounds it; a key is forgotten with its last event.
    lines: by key, those that wait or stand behind one that does.
    """

    __slots__ = ("_go_on", "_keyless", "lines")

    def __init__(self, go_on: Callable[[Publish], None]) -> None:
        self._go_on = go_on
        self.lines: dict[_Key, _Line] = {}
        self._keyless: set[Publish] = set()  # these never wait behind each other

    def __len__(self) -> int:
        """How many stand here, waiting themselves or behind another."""
        return len(self._keyless) + sum(len(line.waits) for line in self.lines.values())

    def enter(self, publish: Publish, waits: bool) -> None:
        """Let it go on at once, or when its own wait (if any) and those before it are over."""
        if not waits and not self.lines:
            self._go_on(publish)
            return
        key = _key(publish)
        if key is None:
            if waits:
                self._keyless.add(publish)
            else:
                self._go_on(publish)
            return
        line = self.lines.get(key)
        if line is None:
            if not waits:
                self._go_on(publish)
                return
            line = self.lines[key] = _Line()
        line.waits[publish] = waits
        self._move(key, line)

    def ready(self, publish: Publish) -> None:
        """Its wait is over. Without effect on one that was dropped meanwhile."""
        key = _key(publish)
        if key is None:
            if publish in self._keyless:
                self._keyless.discard(publish)
                self._go_on(publish)
            return
        line = self.lines.get(key)
        if line is not None and publish in line.waits:
            line.waits[publish] = False
            self._move(key, line)

    def drop(self, publish: Publish) -> bool:
        """It ended by itself and never goes on; those behind it may. False: it was not here."""
        key = _key(publish)
        if key is None:
            was_here = publish in self._keyless
            self._keyless.discard(publish)
            return was_here
        line = self.lines.get(key)
        if line is None or line.waits.pop(publish, None) is None:
            return False
        self._move(key, line)
        return True

    def _move(self, key: _Key, line: _Line) -> None:
        """Let go on whoever stands first and waits no more; the line stays while it moves, so
        that what `go_on` lets in queues behind, and one loop moves it, however deep the calls.
        """
        if line.is_moving:
            return
        line.is_moving = True
        try:
            while line.waits and not line.waits[first := next(iter(line.waits))]:
                del line.waits[first]
                self._go_on(first)
        finally:
            line.is_moving = False
            if not line.waits:
                del self.lines[key]


def _key(publish: Publish) -> _Key | None:
    """The topic is the one that the client named: a reload may make it coalesce, or no longer, and
    its partition count may change, while an event waits here."""
    record, common = publish.record, publish.common
    if record.key is None:
        return None
    return (record.topic if common is None else common.route.state.name, record.key)
