"""What the parent's poll of its workers says to the observer of the installation log."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from headgate.core.installation import Detail, Happening, Kind
from headgate.core.suppression import AWAY, ON, QUARANTINE, worst
from headgate.core.topics.policy import PolicyTable
from headgate.metrics.fleet import Fleet
from headgate.supervisor.control import WorkerState

# A value that is polled: it has changed once two polls in a row say so.
#
# One poll may fall into the moment in which a worker starts, connects, or is away for an instant.


Value = TypeVar("Value")


class Change(NamedTuple, Generic[Value]):
    """before: None = it was not known.  at_ms: the first poll that said so.  lasted_ms: how long
    it was as before."""

    before: Value | None
    after: Value
    at_ms: int
    lasted_ms: int


class Steady(Generic[Value]):
    """value: what it is; None = not known yet."""

    def __init__(self) -> None:
        self.value: Value | None = None
        self._since_ms = 0
        self._candidate: Value | None = None
        self._seen_ms = 0

    def see(self, now_ms: int, value: Value) -> Change[Value] | None:
        """Take what a poll says."""
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


# From what the parent polls to entries of the installation log: who came, who went, how long.


SPOOL = "spool"
_MAX_NAMED = 20  # topics in an entry; how many there are is said besides
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


class Seen(NamedTuple):
    """One poll.

    dependencies: of each whether it is well, and why not.  servers: of each Redis which process
    answers, where all workers have the same.  suppression: states by topic.  spooled: events that
    wait on disk, None = not every worker says.  rebuilds: Kafka producers that were made again so
    far, by (cluster, reason).  refusing: topics that refuse events while Redis is unavailable.
    """

    dependencies: Mapping[str, tuple[bool, str]]
    servers: Mapping[str, str]
    suppression: Mapping[str, str]
    spooled: int | None
    rebuilds: Mapping[tuple[str, ...], float]
    refusing: Collection[str] = ()


class Observer:
    """Told of each poll, it says what happened. What no worker reports stays as it was."""

    def __init__(self) -> None:
        self._well: dict[str, Steady[bool]] = {}
        self._servers: dict[str, Steady[str]] = {}
        self._suppressed: dict[str, Steady[str]] = {}
        self._is_spooling: Steady[bool] = Steady()
        self._rebuilds: dict[tuple[str, ...], float] = {}

    def see(self, now_ms: int, seen: Seen) -> list[Happening]:
        """What became of it since the poll before. now_ms: since 1970."""
        return [
            *self._dependencies(now_ms, seen.dependencies),
            *self._changed_servers(now_ms, seen.servers),
            *self._suppression(now_ms, seen.suppression, seen.refusing),
            *self._spool(now_ms, seen.spooled),
            *self._rebuilt(seen.rebuilds),
        ]

    def _dependencies(
        self, now_ms: int, seen: Mapping[str, tuple[bool, str]]
    ) -> Iterator[Happening]:
        for name, (is_well, why) in seen.items():
            change = self._well.setdefault(name, Steady()).see(now_ms, is_well)
            if change is not None and (change.before is not None or not is_well):
                yield _came_or_went(name, change, why)

    def _changed_servers(self, now_ms: int, seen: Mapping[str, str]) -> Iterator[Happening]:
        for name, server in seen.items():
            change = self._servers.setdefault(name, Steady()).see(now_ms, server)
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
            change = self._suppressed.setdefault(topic, Steady()).see(now_ms, state)
            if change is not None and (change.before is not None or state != ON):
                refuses = state == AWAY and topic in refusing
                together.setdefault((state, refuses), []).append((topic, change))
        for (state, refuses), changes in together.items():
            yield _suppression_changed(state, refuses, changes)

    def _spool(self, now_ms: int, spooled: int | None) -> Iterator[Happening]:
        if spooled is None:
            return
        change = self._is_spooling.see(now_ms, spooled > 0)
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
    """A duration for people: `850 ms`, `12 s`, `3 min 5 s`, `2 h 14 min`."""
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
    kind, said = _REFUSED if refuses else _SUPPRESSION[state]
    topics = sorted(topic for topic, _ in changes)
    named, longest = (
        topics[:_MAX_NAMED],
        max((one for _, one in changes), key=lambda c: c.lasted_ms),
    )
    subject = topics[0] if len(topics) == 1 else f"{len(topics)} topics"
    text = f"{', '.join(named)}{' and others' if len(named) < len(topics) else ''}: {said}"
    details: dict[str, Detail] = {"topics": named, "count": len(topics)}
    if state == ON:
        text, details = f"{text} after {span(longest.lasted_ms)}", details | _lasted(longest)
    return Happening(kind, subject, text, details, min(one.at_ms for _, one in changes))


def seen_of(
    states: Collection[WorkerState],
    dependencies: Mapping[str, Mapping[str, object]],
    figures: Fleet,
    is_complete: bool,
    policies: PolicyTable,
) -> Seen:
    """dependencies: as /ready shows them.  is_complete: every worker has answered."""
    suppression = worst(state.suppression for state in states)
    spooled = sum(figures.gauge("headgate_spool_events").values())
    return Seen(
        {name: (bool(one["ok"]), str(one["detail"])) for name, one in dependencies.items()},
        _servers(states),
        {topic: one.state for topic, one in suppression.items()},
        int(spooled) if is_complete else None,
        figures.counter("headgate_producer_rebuilds_total"),
        policies.refusing(suppression),
    )


def _servers(states: Collection[WorkerState]) -> dict[str, str]:
    """By dependency the process that answers; left out while workers have different ones."""
    found: dict[str, set[str]] = {}
    for state in states:
        for dependency in state.readiness.dependencies:
            if dependency.server:
                found.setdefault(dependency.name, set()).add(dependency.server)
    return {name: servers.pop() for name, servers in found.items() if len(servers) == 1}
