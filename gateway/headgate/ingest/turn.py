"""Stages from the turn of the event loop to the lanes: `Turn`, `Reserve` and `Produce`.

`Turn` gathers the events of one turn of the event loop by topic, from all connections. The stages
after it are called once for each topic and turn. The events of a topic keep their order. Stages in
which single events wait keep the order of each key with `InOrder`.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from headgate.backends.base import Lanes, Suppression
from headgate.ingest.complete import Complete, Oversize
from headgate.model.outcome import Failure, Reason
from headgate.model.publish import Common, Publish, Stage, content_type_of, place_again
from headgate.model.record import EVENT_ID
from headgate.model.route import Route
from headgate.model.suppression import Reservation
from headgate.model.topics import TopicState

log = logging.getLogger("headgate.ingest")
_BUG: Final = Failure(Reason.INTERNAL, "an internal error; nothing was written")
_NEW: Final = Stage.NEW


def at_end_of_turn(call: Callable[[], None]) -> None:
    """Schedule a call for the end of this turn of the event loop."""
    asyncio.get_running_loop().call_soon(call)


class Turn:
    """Events that arrived in this turn of the event loop, by topic.

    Args:
        schedule: Schedules a call (`at_end_of_turn`).
        go_on: Takes events of one topic.
        refuse: Callback for each event that an internal error stopped.
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
        """Add events of one request, in order."""
        topic = route.state.name
        batch = self._batches.get(topic)
        if batch is not None:
            if _route_of(batch) is route:
                batch += started
                return
            # The topic's route has changed; events keep their order.
            self.flush_topic(topic)
        is_first = not self._batches
        self._batches[topic] = started.copy()  # the ticket keeps the list
        if is_first:
            self._schedule(self.flush)

    def flush(self) -> None:
        """Pass on all gathered events, topic by topic in order of arrival."""
        batches, self._batches = self._batches, {}
        for batch in batches.values():
            self._end(batch)

    def flush_topic(self, topic: str) -> None:
        """Pass on a topic's gathered events.

        Events that bypass this batch call it first, so that they do not overtake.
        """
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


# ---- event ids: UUIDv7 of a random node, a counter and the time (RFC 9562, 5.7 and 6.2)
#
# Ids of one process differ by the counter, ids of two processes by 48 random bits. Random bits for
# each event would cost four times as much (docs/design/measured.md#small-things).


class EventIds:
    """Generator of event ids.

    Up to 16,384 ids of a millisecond differ only in the two bytes before the node, which come from
    a lookup table. Formatting each complete id costs three times as much.

    Args:
        node: 48 random bits of this process.
    """

    __slots__ = ("_bytes", "_counter", "_ends", "_high", "_now_ms", "_start")

    def __init__(self, node: bytes) -> None:
        if len(node) != 6:
            raise ValueError("node is 6 bytes")
        self._bytes = [f"{byte:02x}" for byte in range(256)]
        self._ends = [f"{byte:02x}-{node.hex()}" for byte in range(256)]
        self._counter = int.from_bytes(node, "big") & 0x3FFFFFF
        self._now_ms = -1
        self._high = -1
        self._start = ""

    def take(self, now_ms: int) -> str:
        """Return the next id for a time in milliseconds since 1970 (at most 48 bits)."""
        self._counter = counter = (self._counter + 1) & 0x3FFFFFF
        high = counter >> 14
        if now_ms != self._now_ms or high != self._high:
            self._begin(now_ms, high)
        return f"{self._start}{self._bytes[counter >> 8 & 0x3F | 0x80]}{self._ends[counter & 0xFF]}"

    def _begin(self, now_ms: int, high: int) -> None:
        text = f"{now_ms:012x}"
        self._now_ms, self._high = now_ms, high
        self._start = f"{text[:8]}-{text[8:]}-{0x7000 | high:x}-"


# ---- finished records on their way into the lanes
#
# Events that exceed the size limits first go through the topic's oversize policy.


class Produce:
    """Stage that completes records and puts them into their lanes.

    Args:
        ids: Generates ids for events without one.
        lanes: Lanes of the producer.
        state_of: Returns a topic's state as Kafka last described it.
        oversize: Returns the oversize stage, which passes its records back to this object and is
            built later.
    """

    def __init__(
        self,
        ids: EventIds,
        lanes: Lanes,
        state_of: Callable[[str], TopicState | None],
        oversize: Callable[[], Oversize],
    ) -> None:
        self._ids = ids
        self._lanes = lanes
        self._state_of = state_of
        self._oversize_of = oversize
        self._oversize: Oversize | None = None

    def take(self, publishes: list[Publish]) -> None:
        """Take events of one topic, in order.

        They have one route, so the first event shows whether they pass the oversize stage.
        """
        if not self._may_wait(publishes[0]):
            self.queue_in_lane(publishes)
            return
        oversize = self._stage()
        for publish in publishes:
            oversize.take(publish)

    def one(self, publish: Publish) -> None:
        """Take one event, or one record of an oversized event."""
        if publish.owner is not None or not self._may_wait(publish):
            self.queue_in_lane((publish,))
        else:
            self._stage().take(publish)

    def _may_wait(self, publish: Publish) -> bool:
        """Return whether the oversize stage must take the event.

        That is so if its topic has an oversize policy, or if events still wait in the stage.
        """
        common = publish.common
        if common is None:
            return False
        return bool(common.route.strategies) or len(self._stage().waiting) > 0

    def queue_in_lane(self, publishes: Sequence[Publish]) -> None:
        """Put events that are within the size limits into their lanes."""
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
        """Put a finished record into its lane.

        The topic may have been recreated, or may have got more partitions, while the event waited.

        Args:
            publish: The finished record.
            state: The topic's state when the event arrived.
        """
        now = self._state_of(state.name)
        if now is not state and now is not None:
            place_again(publish, now)
        common = publish.common
        if common is not None and common.trace is not None:
            common.trace.put(publish, publish.record.topic)
        self._lanes.put(publish)

    def is_preparing(self, publish: Publish) -> bool:
        """Return whether an event waits in the oversize stage, and not in its lane."""
        return self._stage().is_preparing(publish)

    def drop(self, publish: Publish) -> None:
        """Drop an event that is in its lane or has not reached it."""
        self._stage().drop(publish)

    def _stage(self) -> Oversize:
        if self._oversize is None:
            self._oversize = self._oversize_of()
        return self._oversize


# ---- suppression
#
# If a topic suppresses, Redis is asked before an event is published. Otherwise events pass, unless
# other gateways still rely on the topic's state in Redis (`Suppression.let_pass`).


class Reserve:
    """Stage that reserves events in Redis.

    Args:
        suppression: Suppression state.
        produce: The next stage.
        is_behind: Returns whether the spool contains events of a topic; its events then cannot be
            compared.
    """

    def __init__(
        self,
        suppression: Suppression,
        produce: Produce,
        is_behind: Callable[[str], bool] | None = None,
    ) -> None:
        self._suppression = suppression
        self._produce = produce
        self._is_behind = is_behind

    def take(self, started: list[Publish]) -> None:
        """Take events of one topic, in order.

        The events may have waited, and the topic may have been recreated meanwhile: suppression
        then uses the scope that followed theirs.
        """
        route = _common(started[0]).route
        uncompared = self._is_behind is not None and self._is_behind(route.state.name)
        if self._let_pass(route, len(started), uncompared):
            if route.scope is not None:
                passed = Reservation(route.scope, route.state.partitions)
                for publish in started:
                    publish.reservation, publish.digest = passed, None
            self._produce.take(started)
            return
        refuse = route.refuses and route.digest is not None
        for publish in started:
            if uncompared:
                publish.digest = b""
            common = _common(publish)
            self._ask(publish, common, force=common.force, refuse=refuse)

    def one(self, publish: Publish) -> None:
        """Take one event whose turn has come."""
        self.take([publish])

    def element(self, part: Publish, *, refuse: bool) -> bool:
        """Reserve a record that was split from a document and has a key of its own.

        The key's state must include the record. Otherwise later events of the key would be
        compared with an outdated record.

        Args:
            part: The record.
            refuse: Whether to refuse the record if Redis is not available.

        Returns:
            False if no reservation is needed: the record may enter its lane at once.
        """
        common = _common(part)
        route = common.route
        if self._let_pass(route, 1, False):
            if route.scope is not None:
                part.reservation = Reservation(route.scope, route.state.partitions)
            return False
        refuse = refuse or (route.refuses and route.digest is not None)
        self._ask(part, common, force=True, refuse=refuse)
        return True

    def _let_pass(self, route: Route, count: int, uncompared: bool) -> bool:
        if route.digest is not None and (not uncompared or route.refuses):
            return False
        return route.scope is None or self._suppression.let_pass(route.scope, count)

    def _ask(self, publish: Publish, common: Common, *, force: bool, refuse: bool) -> None:
        route, record = common.route, publish.record
        if record.key is None:  # events without a key cannot be compared
            publish.digest = None
            self._produce.one(publish)
            return
        if publish.is_client_placed or route.digest is None:
            publish.digest = b""
        elif publish.digest is None:
            publish.digest = route.digest(record.value, content_type_of(record.headers))
        force = force or not publish.digest  # an event with an empty digest equals no other
        assert route.scope is not None  # events are reserved only within a scope
        publish.reservation = Reservation(route.scope, route.state.partitions, force, refuse)
        if common.trace is not None:
            common.trace.reserve(record.topic)
        self._suppression.reserve(publish)


def _common(publish: Publish) -> Common:
    assert publish.common is not None  # it came with a request
    return publish.common


class ReserveVerdicts:
    """Handler for verdicts on reserved events. Implements `base.Verdicts`."""

    def __init__(self, complete: Complete, produce: Produce) -> None:
        self._complete = complete
        self._produce = produce

    def publish(self, publish: Publish) -> None:
        trace = _common(publish).trace
        if trace is not None:
            trace.decided(unreserved=publish.reserved.unreserved)
        self._produce.one(publish)

    def unchanged(self, publish: Publish, offset: int) -> None:
        trace = _common(publish).trace
        if trace is not None:
            trace.decided(unchanged=1)
        self._complete.unchanged(publish, offset)

    def refused(self, publish: Publish, failure: Failure) -> None:
        trace = _common(publish).trace
        if trace is not None:
            trace.decided()
        self._complete.reject(publish, failure)


# ---- order by key
#
# An event may need work off the event loop before it is reserved (compare a large document, store
# a blob). A later event of its key that needs no such work must not overtake it.


_Key = tuple[str, bytes]  # topic, key


class _Line:
    """Events of one key, in order of arrival, each with whether it still waits."""

    __slots__ = ("is_moving", "waits")

    def __init__(self) -> None:
        self.waits: OrderedDict[Publish, bool] = OrderedDict()  # any of them can leave in O(1)
        self.is_moving = False


class InOrder:
    """A queue that keeps the events of each key in order; one for each step with a wait.

    All events here were admitted and not answered, so admission.in_flight_max_events bounds them.
    A key is forgotten with its last event.

    Args:
        go_on: Takes an event whose turn it is. It may call all methods of this object: an event
            that enters meanwhile goes on after earlier events of its key.

    Attributes:
        lines: By key, the events that wait, or that stand behind a waiting event.
    """

    __slots__ = ("_go_on", "_keyless", "lines")

    def __init__(self, go_on: Callable[[Publish], None]) -> None:
        self._go_on = go_on
        self.lines: dict[_Key, _Line] = {}
        self._keyless: set[Publish] = set()  # these never wait behind each other

    def __len__(self) -> int:
        """Return the number of events here, including those behind a waiting event."""
        return len(self._keyless) + sum(len(line.waits) for line in self.lines.values())

    def __contains__(self, publish: Publish) -> bool:
        line = self.lines.get(key) if (key := _key(publish)) is not None else None
        return publish in (self._keyless if line is None else line.waits)

    def enter(self, publish: Publish, waits: bool) -> None:
        """Add an event; it goes on once its own wait and those of earlier events are over.

        Args:
            publish: The event.
            waits: Whether the event has a wait of its own, which `ready` ends.
        """
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
        """End an event's wait. No-op if the event was dropped meanwhile."""
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
        """Remove an event that does not go on; events behind it may go on.

        Returns:
            False if the event was not here.
        """
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
        """Let the first events of a line go on until one still waits.

        The line stays registered meanwhile, so events that `go_on` lets in queue behind. Nested
        calls return at once: one loop moves the line.
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
    """Return the topic that the client named and the record's key; None without a key.

    The record's own topic is not stable: a reload may turn coalescing on or off while events wait.
    """
    record, common = publish.record, publish.common
    if record.key is None:
        return None
    return (record.topic if common is None else common.route.state.name, record.key)
