"""Tells one server which servers this process uses, and what others have told it."""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headgate.backends.redis.suppression_store import SuppressionStore
from headgate.core.suppression.layout import (
    Agreement,
    LayoutCall,
    LayoutSpans,
    layout_of,
    layout_spans,
)
from headgate.suppression.options import SuppressOptions

_log = logging.getLogger("headgate.suppression.tellings")


class Membership(NamedTuple):
    """One server's place among those of this process.

    agreement: of the process, shared by its servers.  number: of this one.  call: what it is told.
    """

    agreement: Agreement
    number: int
    call: LayoutCall
    spans: LayoutSpans


def memberships(servers: Sequence[str], options: SuppressOptions, prefix: str) -> list[Membership]:
    """One for each server. servers: their identities.  prefix: redis.namespace."""
    spans = layout_spans(options.quarantine_ms, options.max_suppress_age_ms)
    agreement = Agreement(len(servers), spans)
    name, layout = f"{prefix}:layout".encode(), layout_of(servers)
    call = LayoutCall(name, layout, spans.alive * 1000, spans.keep * 1000)
    return [Membership(agreement, number, call, spans) for number in range(len(servers))]


class Tellings:
    """clock: seconds, never jumping."""

    def __init__(
        self, store: SuppressionStore, membership: Membership, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._membership = membership
        self._clock = clock
        self._sent_s = -math.inf

    @property
    def is_due(self) -> bool:
        """Whether the server must be told again."""
        return self._clock() - self._sent_s >= self._membership.spans.interval

    async def tell(self) -> None:
        """Raises StoreError."""
        agreement, number, call, _ = self._membership
        self._sent_s = sent_s = self._clock()
        reply = await self._store.tell(call)
        agreement.heard(number, sent_s, self._clock(), reply)

    def lost(self) -> None:
        """The connection broke."""
        self._sent_s = -math.inf
        self._membership.agreement.lost(self._membership.number, self._clock())


async def may_begin(agreement: Agreement, clock: Callable[[], float]) -> None:
    """Return when this process may take events: at once, or if gateways with other servers were
    there, when they believe nothing any more."""
    while (wait_s := agreement.begins_s - clock()) > 0:  # a server may answer meanwhile
        _log.warning(
            "suppression: other gateways have other servers in redis.urls: start delayed by %.0f s",
            wait_s,
        )
        await asyncio.sleep(wait_s)
