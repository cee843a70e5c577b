"""Gathers what arrived in one turn of the event loop, by topic: the batch that goes on from here.

However many connections the events came on, the stages behind this are called once for each topic
and turn. Within a topic the events keep the order in which they came.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Publish, Stage
from headgate.core.topics.route import Route

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
