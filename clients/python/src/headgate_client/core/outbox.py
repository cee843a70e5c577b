"""The bounded buffer of a producer: its events until they have ended, and its next requests.

Both producers, with threads and with asyncio, repeat `take`, post, `answered`.
"""

import heapq
import math
from collections.abc import Callable, Hashable
from itertools import count

from headgate_client.core.answer import Answer, Ended
from headgate_client.core.delivery import Chances, Delivery, as_key
from headgate_client.core.encode import Part
from headgate_client.core.lanes import OVERHEAD_BYTES, Entry, Topic, size_of
from headgate_client.errors import InvalidEventError
from headgate_client.outcomes import Outcome, Rejected
from headgate_client.settings import Buffering, Limits, Retry


class Load:
    """The events of one delivery.

    Attributes:
        is_posted: Whether its request is under way.
    """

    __slots__ = ("delivery", "entries", "is_posted")

    def __init__(self, delivery: Delivery, entries: list[Entry]) -> None:
        self.delivery = delivery
        self.entries = entries
        self.is_posted = False


class Outbox:
    """The events of a producer, by topic and lane. All times are of one clock, in seconds."""

    def __init__(
        self, retry: Retry, limits: Limits, buffering: Buffering, chances: Chances
    ) -> None:
        self.events = self.bytes = 0  # what is in it
        self._retry, self._limits, self._buffering, self._chances = (
            retry,
            limits,
            buffering,
            chances,
        )
        self._topics: dict[str, Topic] = {}
        self._loads: dict[int, Load] = {}  # by identity: all that are under way or wait
        self._waiting: list[tuple[float, int, Load]] = []  # a heap: they go again at that time
        self._numbers = count()
        self._epoch = 0
        self._open_of_epoch: dict[int, int] = {}

    def has_room(self, part: Part) -> bool:
        """Return whether the event fits now. Raises InvalidEventError if it never fits."""
        size = size_of(part)
        if size > self._buffering.max_bytes:
            raise InvalidEventError(
                f"value: {len(part.text)} bytes do not fit into a buffer of "
                f"max_bytes = {self._buffering.max_bytes}; send it with the client"
            )
        return self.limit(part) is None

    def limit(self, part: Part) -> str | None:
        """Return the limit that leaves no room for the event, None if there is room."""
        buffering = self._buffering
        if self.events >= buffering.max_events:
            return f"max_events = {buffering.max_events}"
        if self.bytes + size_of(part) > buffering.max_bytes:
            return f"max_bytes = {buffering.max_bytes}, {OVERHEAD_BYTES} for each event"
        return None

    def add(
        self,
        topic: str,
        part: Part,
        lane: Hashable,
        now_s: float,
        done: Callable[[Outcome], None],
    ) -> bool:
        """Take an event; return whether a request is due earlier than before."""
        entry = Entry(part, lane, now_s, self._epoch, done)
        waiting = self._topics.get(topic)
        if waiting is None:
            waiting = self._topics[topic] = Topic(topic)
        self.events += 1
        self.bytes += entry.size
        self._open_of_epoch[self._epoch] = self._open_of_epoch.get(self._epoch, 0) + 1
        return waiting.add(entry, self._limits)

    def take(self, now_s: float) -> Load | float:
        """Return the load to post now (`load.delivery.post()`), else the seconds to wait."""
        if self._waiting and self._waiting[0][0] <= now_s:
            load = heapq.heappop(self._waiting)[2]
            load.is_posted = True
            return load
        due_s = self._waiting[0][0] if self._waiting else math.inf
        for topic in list(self._topics.values()):
            topic_due_s = self._due_s(topic)
            if topic_due_s <= now_s:
                self._topics[topic.name] = self._topics.pop(topic.name)  # each has its turn
                return self._new_load(topic)
            due_s = min(due_s, topic_due_s)
        return due_s - now_s

    def answered(self, load: Load, answer: Answer, now_s: float) -> list[tuple[Entry, Outcome]]:
        """Take the answer to a post; return the events that have ended."""
        if id(load) not in self._loads:
            return []  # abandoned in the meantime
        load.is_posted = False
        topic = self._topics[load.delivery.topic]
        step = load.delivery.answered(answer, now_s)
        if isinstance(answer, Ended):
            topic.held_until_s = 0.0
        elif step.wait_s:  # new requests would fail as well
            topic.held_until_s = max(topic.held_until_s, now_s + step.wait_s)
        if step.wait_s is None:
            del self._loads[id(load)]
        else:
            due = (now_s + step.wait_s, next(self._numbers), load)
            heapq.heappush(self._waiting, due)
        return self._end(load, step.ended)

    def flush(self) -> int:
        """Make all present events due; return a number for `is_flushed`."""
        self._epoch += 1
        return self._epoch

    def is_flushed(self, number: int) -> bool:
        """Return whether all events have ended that were present when `flush` gave the number."""
        return not self._open_of_epoch or next(iter(self._open_of_epoch)) >= number

    def abandon(self, detail: str) -> list[tuple[Entry, Outcome]]:
        """End all events with the best knowledge of each."""
        ended: list[tuple[Entry, Outcome]] = []
        for load in list(self._loads.values()):
            ended += self._end(load, load.delivery.give_up(is_posted=load.is_posted))
        for topic in self._topics.values():
            ended += [(entry, _not_sent(topic.name, entry, detail)) for entry in topic.waiting()]
        self._loads.clear()
        self._waiting.clear()
        self._topics.clear()
        self._open_of_epoch.clear()
        self.events = self.bytes = 0
        return ended

    def _due_s(self, topic: Topic) -> float:
        return topic.due_s(self._limits, 0.0 if self._is_flushing else self._buffering.linger_s)

    @property
    def _is_flushing(self) -> bool:
        return not self.is_flushed(self._epoch)

    def _new_load(self, topic: Topic) -> Load:
        entries = topic.take(self._limits, self._buffering.one_per_key)
        delivery = Delivery(
            topic.name,
            [entry.part for entry in entries],
            self._retry,
            self._limits,
            self._chances,
            max(entry.added_s for entry in entries) + self._retry.patience_s,
        )
        load = Load(delivery, entries)
        load.is_posted = True
        self._loads[id(load)] = load
        return load

    def _end(self, load: Load, places: list[int]) -> list[tuple[Entry, Outcome]]:
        """Free the room of events that have ended, and release their lanes."""
        ended = []
        topic = self._topics[load.delivery.topic]
        for at in places:
            entry, outcome = load.entries[at], load.delivery.outcomes[at]
            assert outcome is not None  # its place is among those that ended
            topic.end(entry)
            self.events -= 1
            self.bytes -= entry.size
            self._open_of_epoch[entry.epoch] -= 1
            if not self._open_of_epoch[entry.epoch]:
                del self._open_of_epoch[entry.epoch]
            ended.append((entry, outcome))
        if topic.is_empty:
            del self._topics[topic.name]
        return ended


def _not_sent(topic: str, entry: Entry, detail: str) -> Outcome:
    return Rejected(
        topic=topic,
        reason="not_sent",
        detail=detail,
        retryable=True,
        key=as_key(entry.part.lane),
        event_id=entry.part.event_id,
    )
