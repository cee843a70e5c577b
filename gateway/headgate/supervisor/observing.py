"""Comparison of the parent's polls of its workers, for entries of the installation log."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from headgate.core.installation import Detail, Happening, Kind
from headgate.core.suppression import AWAY, ON, QUARANTINE, worst
from headgate.core.topics.policy import PolicyTable
from headgate.metrics.fleet import Fleet
from headgate.supervisor.control import WorkerState

Value = TypeVar("Value")
SPOOL = "spool"
_MAX_NAMED = 20  # topics that an entry names; their number is a field
_SUPPRESSION = {
    QUARANTINE: (Kind.QUARANTINE_BEGAN, "all events are published without comparison (quarantine)"),
    AWAY: (
        Kind.SUPPRESSION_AWAY,
        "all events are published without comparison: Redis does not answer",
    ),
    ON: (Kind.SUPPRESSION_ON, "suppression is active again"),
}
_REFUSED: tuple[Kind, str] = (
    Kind.SUPPRESSION_AWAY,
    'events are refused (redis_loss = "refuse"): Redis does not answer',
)
Words = tuple[Kind, str]
_OUTAGE: tuple[Words, Words] = (
    (Kind.OUTAGE_BEGAN, "{}: {}"),
    (Kind.OUTAGE_ENDED, "{} recovered after {}"),
)
_SPOOL_STOP: tuple[Words, Words] = (
    (Kind.SPOOL_STOPPED, "the {} refuses events: {}"),
    (Kind.SPOOL_RESUMED, "the {} accepts events again after {}"),
)


class Change(NamedTuple, Generic[Value]):
    """A change of a polled value.

    Args:
        before: The value before; None if it was not known.
        after: The new value.
        at_ms: Time of the first poll with the new value, in milliseconds since 1970.
        lasted_ms: Duration of the value before, in milliseconds.
    """

    before: Value | None
    after: Value
    at_ms: int
    lasted_ms: int


class Debounced(Generic[Value]):
    """A polled value that changes once two polls in a row agree; None until then.

    A single poll may fall into the moment in which a worker starts, connects or is briefly away.
    """

    def __init__(self) -> None:
        self.value: Value | None = None
        self._since_ms = 0
        self._candidate: Value | None = None
        self._seen_ms = 0

    def update(self, now_ms: int, value: Value) -> Change[Value] | None:
        """Take the value of a poll; return the change that it confirms, if any."""
        if value == self.value:
            self._candidate = None
            return None
        if value != self._candidate:
            self._candidate, self._seen_ms = value, now_ms
            return None
        # a clock may be set back
        lasted_ms = max(0, self._seen_ms - self._since_ms) if self.value is not None else 0
        change = Change(self.value, value, self._seen_ms, lasted_ms)
        self.value, self._since_ms, self._candidate = value, self._seen_ms, None
        return change


# Entries of the installation log, from consecutive polls


class Poll(NamedTuple):
    """The result of one poll of all workers.

    Args:
        dependencies: For each dependency whether it works, and the reason if not.
        servers: The process that answers for each Redis, if all workers have the same.
        suppression: The suppression state by topic.
        spooled: Events on disk; None unless every worker reports them.
        rebuilds: Kafka producers replaced so far, by (cluster, reason).
        refusing: Topics that refuse events while Redis is unavailable.
    """

    dependencies: Mapping[str, tuple[bool, str]]
    servers: Mapping[str, str]
    suppression: Mapping[str, str]
    spooled: int | None
    rebuilds: Mapping[tuple[str, ...], float]
    refusing: Collection[str] = ()


class Observer:
    """A comparison of consecutive polls. A value that no worker reports keeps its state."""

    def __init__(self) -> None:
        self._well: dict[str, Debounced[bool]] = {}
        self._servers: dict[str, Debounced[str]] = {}
        self._suppressed: dict[str, Debounced[str]] = {}
        self._is_spooling: Debounced[bool] = Debounced()
        self._rebuilds: dict[tuple[str, ...], float] = {}

    def see(self, now_ms: int, poll: Poll) -> list[Happening]:
        """Return the entries of a poll at `now_ms`, in milliseconds since 1970."""
        return [
            *self._dependencies(now_ms, poll.dependencies),
            *self._changed_servers(now_ms, poll.servers),
            *self._suppression(now_ms, poll.suppression, poll.refusing),
            *self._spool(now_ms, poll.spooled),
            *self._rebuilt(poll.rebuilds),
        ]

    def _dependencies(
        self, now_ms: int, seen: Mapping[str, tuple[bool, str]]
    ) -> Iterator[Happening]:
        for name, (is_well, why) in seen.items():
            change = self._well.setdefault(name, Debounced()).update(now_ms, is_well)
            if change is not None and (change.before is not None or not is_well):
                yield _came_or_went(name, change, why)

    def _changed_servers(self, now_ms: int, seen: Mapping[str, str]) -> Iterator[Happening]:
        for name, server in seen.items():
            change = self._servers.setdefault(name, Debounced()).update(now_ms, server)
            if change is not None and change.before is not None:
                text = f"{name}: {change.after} answers instead of {change.before}"
                details: dict[str, Detail] = {"before": change.before, "after": change.after}
                yield Happening(Kind.REDIS_CHANGED, name, text, details, change.at_ms)

    def _suppression(
        self, now_ms: int, seen: Mapping[str, str], refusing: Collection[str]
    ) -> Iterator[Happening]:
        for gone in self._suppressed.keys() - seen.keys():
            del self._suppressed[gone]
        together: dict[tuple[str, bool], list[tuple[str, Change[str]]]] = {}
        for topic, state in seen.items():
            change = self._suppressed.setdefault(topic, Debounced()).update(now_ms, state)
            if change is not None and (change.before is not None or state != ON):
                refuses = state == AWAY and topic in refusing
                together.setdefault((state, refuses), []).append((topic, change))
        for (state, refuses), changes in together.items():
            yield _suppression_changed(state, refuses, changes)

    def _spool(self, now_ms: int, spooled: int | None) -> Iterator[Happening]:
        if spooled is None:
            return
        change = self._is_spooling.update(now_ms, spooled > 0)
        if change is None or (change.before is None and not change.after):
            return
        if change.after:
            text, details = "events are spooled on disk", {"events": spooled}
            yield Happening(Kind.SPOOL_BEGAN, SPOOL, text, details, change.at_ms)
            return
        text = f"empty again after {span(change.lasted_ms)}"
        yield Happening(Kind.SPOOL_ENDED, SPOOL, text, _lasted(change), change.at_ms)

    def _rebuilt(self, seen: Mapping[tuple[str, ...], float]) -> Iterator[Happening]:
        for labels, total in seen.items():
            more = int(total - self._rebuilds.get(labels, 0))
            self._rebuilds[labels] = total
            if more > 0:
                cluster, reason = labels
                text = f"kafka {cluster}: {more} producer(s) replaced: {reason}"
                details: dict[str, Detail] = {"reason": reason, "count": more}
                yield Happening(Kind.PRODUCER_REBUILT, f"kafka {cluster}", text, details)


def span(ms: int) -> str:
    """Return a duration for people: `850 ms`, `12 s`, `3 min 5 s`, `2 h 14 min`."""
    if ms < 1000:
        return f"{ms} ms"
    minutes, seconds = divmod(round(ms / 1000), 60)
    if not minutes:
        return f"{seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def _lasted(change: Change[bool] | Change[str]) -> dict[str, Detail]:
    return {"seconds": round(change.lasted_ms / 1000, 3)}


def _came_or_went(name: str, change: Change[bool], why: str) -> Happening:
    (went, stopped), (came, began) = _SPOOL_STOP if name == SPOOL else _OUTAGE
    if change.after:
        text = began.format(name, span(change.lasted_ms))
        return Happening(came, name, text, _lasted(change), change.at_ms)
    return Happening(went, name, stopped.format(name, why), {}, change.at_ms)


def _suppression_changed(
    state: str, refuses: bool, changes: Sequence[tuple[str, Change[str]]]
) -> Happening:
    kind, sentence = _REFUSED if refuses else _SUPPRESSION[state]
    topics = sorted(topic for topic, _ in changes)
    named = topics[:_MAX_NAMED]
    longest = max((change for _, change in changes), key=lambda change: change.lasted_ms)
    subject = topics[0] if len(topics) == 1 else f"{len(topics)} topics"
    text = f"{', '.join(named)}{' and others' if len(named) < len(topics) else ''}: {sentence}"
    details: dict[str, Detail] = {"topics": named, "count": len(topics)}
    if state == ON:
        text, details = f"{text} after {span(longest.lasted_ms)}", details | _lasted(longest)
    return Happening(kind, subject, text, details, min(change.at_ms for _, change in changes))


def poll_of(
    states: Collection[WorkerState],
    dependencies: Mapping[str, Mapping[str, object]],
    figures: Fleet,
    is_complete: bool,
    policies: PolicyTable,
) -> Poll:
    """Return the poll for the observer.

    Args:
        states: The states of the workers.
        dependencies: The dependencies as /ready shows them.
        figures: The metrics of all workers.
        is_complete: Whether every worker has answered.
        policies: The policies of all topics.
    """
    suppression = worst(state.suppression for state in states)
    spooled = sum(figures.gauge("headgate_spool_events").values())
    return Poll(
        {name: (bool(each["ok"]), str(each["detail"])) for name, each in dependencies.items()},
        _servers(states),
        {topic: worst_of.state for topic, worst_of in suppression.items()},
        int(spooled) if is_complete else None,
        figures.counter("headgate_producer_rebuilds_total"),
        policies.refusing(suppression),
    )


def _servers(states: Collection[WorkerState]) -> dict[str, str]:
    """Return the process that answers for each dependency, if all workers have the same."""
    by_name: dict[str, set[str]] = {}
    for state in states:
        for dependency in state.readiness.dependencies:
            if dependency.server:
                by_name.setdefault(dependency.name, set()).add(dependency.server)
    return {name: servers.pop() for name, servers in by_name.items() if len(servers) == 1}
