"""Examines events where their topic asks for it, before they are reserved or handed over.

Small ones at once, large ones in the process aside; each key's events go on in their order.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from headgate.core.event import RawEvent
from headgate.core.formats.canonical import Fallback
from headgate.core.outcome import Failure
from headgate.core.publish import Publish
from headgate.core.record import content_type_of
from headgate.core.suppression.examination import (
    Content,
    Examination,
    Orders,
    examine,
    examine_here,
    examine_in_need,
    is_long,
)
from headgate.offload.helper_process import Aside
from headgate.pipeline.in_order import InOrder


class Examined(Protocol):
    """Who hears how it ended: for each event once, in the order in which a key's events came."""

    def fit(self, publish: Publish) -> None:
        """It goes on; where the topic compares canonical forms, its digest is there."""
        ...

    def refused(self, publish: Publish, failure: Failure) -> None:
        """It is refused."""
        ...


class Examining:
    """count: told topic and reason of each event whose bytes are compared instead of its form."""

    def __init__(
        self, examined: Examined, aside: Aside, count: Callable[[str, Fallback], None]
    ) -> None:
        self._examined = examined
        self._aside = aside
        self._count = count
        self._order = InOrder(examined.fit)

    def take_event(self, publish: Publish, orders: Orders, event: bytes | RawEvent) -> None:
        """Examine what an event says; a tombstone says nothing, but keeps its place."""
        value = publish.record.value
        if value is None:
            self._order.enter(publish, False)
            return
        document = event if isinstance(event, bytes) else event.document
        self.take(publish, orders, Content(value, content_type_of(publish.record), document))

    def take(self, publish: Publish, orders: Orders, content: Content) -> None:
        """Examine one event; its end may come before this returns."""
        examination = None if is_long(orders, content) else examine_here(orders, content)
        if examination is not None:
            if self._note(publish, examination):
                self._order.enter(publish, False)
            return
        self._order.enter(publish, True)
        answer = self._aside.ask(examine, orders, content)

        def answered(found: "asyncio.Future[Examination | None]") -> None:
            if not publish.dropped:
                self._end(publish, found.result() or examine_in_need(orders, content))

        answer.add_done_callback(answered)

    def pass_by(self, publish: Publish) -> None:
        """Let one that has been examined take its turn behind those of its key."""
        self._order.enter(publish, False)

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
            self._examined.refused(publish, failure)
            return False
        if digest is not None:
            publish.digest = digest
        if fallback is not None:
            self._count(publish.record.topic, fallback)
        return True
