"""Events are checked against their topic's schema and brought into canonical form, where it asks.

Small ones at once, large ones in the helper process; each key's events go on in their order.
"""

import asyncio
from collections.abc import Callable, Sequence, Sized
from typing import Protocol

from headgate.core.content import (
    Content,
    Examination,
    Orders,
    examine,
    examine_here,
    examine_in_need,
    is_long,
)
from headgate.core.event import Event
from headgate.core.formats.canonical import Fallback
from headgate.core.outcome import Failure
from headgate.core.publish import Publish
from headgate.core.record import content_type_of
from headgate.offload.helper_process import HelperProcess
from headgate.pipeline.in_order import InOrder


class Fitting(Protocol):
    """Who takes those that go on (`reserve.Reserve`)."""

    def take(self, started: list[Publish]) -> None: ...

    def one(self, publish: Publish) -> None:
        """Each once, in the order in which a key's events came."""
        ...


class Validate:
    """refuse: told of each event that does not go on.  count: told topic and reason of each event
    whose bytes are compared instead of its canonical form.

    waiting: keys of which an event waits here that later ones must not overtake.
    """

    def __init__(
        self,
        fitting: Fitting,
        refuse: Callable[[Publish, Failure], None],
        helper: HelperProcess,
        count: Callable[[str, Fallback], None],
    ) -> None:
        self._fitting = fitting
        self._refuse = refuse
        self._helper = helper
        self._count = count
        self._order = InOrder(fitting.one)
        self.waiting: Sized = self._order.lines

    def take(self, started: list[Publish], events: Sequence[Event]) -> None:
        """Events of one request, in order. events: all that it came with.

        None of them overtakes what waits here, whatever its topic asks for by now. Where digests
        are of canonical forms, one that has its digest came through the scanner.
        """
        common = started[0].common
        assert common is not None
        route = common.route
        orders = route.orders
        if orders is None:  # since a reload; what came before it may wait here
            for publish in started:
                self._order.enter(publish, False)
            return
        for publish in started:
            if publish.large is not None and publish.large.stored is not None:
                self._order.enter(publish, False)  # seen while it was stored
                continue
            if publish.digest is not None and orders.schema is None:
                self._order.enter(publish, False)
                continue
            record = publish.record
            if route.digest is not None and (record.value is None or orders.comparison is None):
                publish.digest = route.digest(record.value, content_type_of(record))
            if record.value is not None:
                record.headers = [*record.headers, *route.schema_headers]
            self.event(publish, orders, events[publish.index])

    def event(self, publish: Publish, orders: Orders, event: Event) -> None:
        """Examine what an event says; a tombstone says nothing, but keeps its place."""
        value = publish.record.value
        if value is None:
            self._order.enter(publish, False)
            return
        assert not isinstance(event, Failure)  # such a one never started
        document = event if isinstance(event, bytes) else event.document
        self.content(publish, orders, Content(value, content_type_of(publish.record), document))

    def content(self, publish: Publish, orders: Orders, content: Content) -> None:
        """Examine one event; its end may come before this returns."""
        examination = None if is_long(orders, content) else examine_here(orders, content)
        if examination is not None:
            if self._note(publish, examination):
                self._order.enter(publish, False)
            return
        self._order.enter(publish, True)
        answer = self._helper.ask(examine, orders, content)

        def answered(found: "asyncio.Future[Examination | None]") -> None:
            if not publish.dropped:
                self._end(publish, found.result() or examine_in_need(orders, content))

        answer.add_done_callback(answered)

    def drop(self, publish: Publish) -> bool:
        """It ended for its client; those behind it go on. False: it was not here."""
        return self._order.drop(publish)

    def _end(self, publish: Publish, examination: Examination) -> None:
        if self._note(publish, examination):
            self._order.ready(publish)
        else:
            self._order.drop(publish)

    def _note(self, publish: Publish, examination: Examination) -> bool:
        """Write down what was found; False: it is refused."""
        failure, digest, fallback = examination
        if failure is not None:
            self._refuse(publish, failure)
            return False
        if digest is not None:
            publish.digest = digest
        if fallback is not None:
            self._count(publish.record.topic, fallback)
        return True
