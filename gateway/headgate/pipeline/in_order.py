"""Lets the events of one key go on in the order in which they came, whatever each waits for.

Something may have to be done for an event off the event loop (compare a large document, store a
blob) before it is reserved. A later event of its key that needs nothing must not overtake it.
"""

from collections import OrderedDict
from collections.abc import Callable

from headgate.core.publish import Publish

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
