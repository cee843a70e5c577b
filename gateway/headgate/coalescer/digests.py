"""What the content of windows is, for RESERVE: bytes or canonical form, as their topic compares.

Small ones are examined between two turns of the event loop, large ones in the helper process. All
are of different keys, and a session asks for one round at a time: a key's order cannot suffer.
"""

import asyncio
from collections.abc import Callable, Sequence

from headgate.coalescer.turns import Turns
from headgate.core.coalescing.held import HeldEvent
from headgate.core.coalescing.window import Window
from headgate.core.content import (
    INLINE_BYTES,
    Content,
    Examination,
    Orders,
    examine,
    examine_here,
    examine_in_need,
    is_long,
)
from headgate.core.formats.canonical import Fallback
from headgate.core.record import content_type_in
from headgate.core.topics.route import Route
from headgate.offload.helper_process import HelperProcess

_TURN_BYTES = INLINE_BYTES  # examined in one turn of the event loop: 1-2 ms
_WINDOW_BYTES = 640  # what else a window costs, in the same money


class Digests:
    """count: told topic and reason of each content whose bytes are compared instead of its form."""

    def __init__(
        self, helper: HelperProcess, count: Callable[[str, Fallback], None], turns: Turns
    ) -> None:
        self._turns = turns
        self._helper = helper
        self._count = count

    async def of(self, route: Route, windows: Sequence[Window]) -> list[bytes | None]:
        """The digest of each window's newest content; None where the topic compares nothing."""
        orders = None if route.orders is None else route.orders._replace(schema=None)
        if route.digest is None or orders is None or orders.comparison is None:
            return await self._raw(route, windows)
        found: dict[int, Examination] = {}
        waiting: dict[int, asyncio.Future[Examination | None]] = {}
        spent = 0
        for place, window in enumerate(windows):
            content = _content(window.last)
            if content is None:
                found[place] = Examination(None, route.digest(None, None))
            elif is_long(orders, content):
                waiting[place] = self._helper.ask(examine, orders, content)
            else:
                here = examine_here(orders, content)
                assert here is not None  # only a schema can be too much for here
                found[place] = here
                spent += len(content.value)
            spent = await self._turn(spent)
        for place, answer in waiting.items():
            found[place] = await answer or self._in_need(orders, windows[place].last)
        return [self._counted(route, found[place]) for place in range(len(windows))]

    async def _raw(self, route: Route, windows: Sequence[Window]) -> list[bytes | None]:
        if route.digest is None:
            return [None] * len(windows)
        digests: list[bytes | None] = []
        spent = 0
        for window in windows:
            held = window.last
            digests.append(route.digest(held.value, content_type_in(held.headers)))
            spent = await self._turn(spent + len(held.value or b"") // 16)  # a hash is so fast
        return digests

    @staticmethod
    def _in_need(orders: Orders, held: HeldEvent) -> Examination:
        content = _content(held)
        assert content is not None
        return examine_in_need(orders, content)

    async def _turn(self, spent: int) -> int:
        """Let others have the event loop now and then; returns what is spent of the next turn."""
        if spent < _TURN_BYTES:
            return spent + _WINDOW_BYTES
        await self._turns.take()
        return 0

    def _counted(self, route: Route, examination: Examination) -> bytes | None:
        if examination.fallback is not None:
            self._count(route.state.name, examination.fallback)
        return examination.digest


def _content(held: HeldEvent) -> Content | None:
    if held.value is None:
        return None
    return Content(held.value, content_type_in(held.headers), None)
