"""Replays in the registry: their states, the allowed changes, and the fold of the records.

The registry is the compacted topic `headgate.replays` of a backfill tier, one partition. A replay
has three keys: `<id>/spec` (by the API, never changed), `<id>/control` (by the API: run, pause,
cancel) and `<id>/status` (observed; of mode topic by the runner, else by the API in the transaction
of the spec). `snapshot/<name>` has a named vector of offsets, `runner` the runner's heartbeat, and
`<topic>/wanted` the offsets that a request waits for the mirror to copy.
Values are JSON objects; fields that this release does not know are kept and shown.

Compaction keeps the newest record of each key, so the fold must have the same result without the
earlier ones: a status may follow any status from which it can be reached, not only its neighbour.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from headgate.model.installation import Detail, Kind, NewEntry
from headgate.model.internal_topics import InternalTopic
from headgate.model.topics import TopicState

REGISTRY_TOPIC = "headgate.replays"
TOPIC_PREFIX = "replay."  # of the topics that replays are copied to
RUNNER_KEY = b"runner"
_SNAPSHOT = "snapshot"
_WANTED = "wanted"
_MAX_BYTES = 900_000  # of a record: below Kafka's default limit


class TooLargeError(ValueError):
    """A record that the registry's topic would not take."""


class ReplayState(StrEnum):
    """The state of a replay."""

    PENDING = "pending"  # accepted; no runner has begun
    PLANNED = "planned"  # its topic exists
    COPYING = "copying"
    READY = "ready"  # can be read
    COMPLETED = "completed"  # the group's offsets are committed
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"  # its time is over; the topic is deleted


_S = ReplayState
NEXT: Mapping[ReplayState, frozenset[ReplayState]] = {
    _S.PENDING: frozenset({_S.PLANNED, _S.READY, _S.COMPLETED, _S.FAILED, _S.CANCELLED}),
    _S.PLANNED: frozenset({_S.COPYING, _S.FAILED, _S.CANCELLED}),
    _S.COPYING: frozenset({_S.READY, _S.FAILED, _S.CANCELLED}),
    _S.READY: frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELLED, _S.EXPIRED}),
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
    _S.EXPIRED: frozenset(),
}
FINISHED = frozenset(state for state, following in NEXT.items() if not following)


def reachable(start: ReplayState) -> frozenset[ReplayState]:
    """Return all states that may follow, by any number of steps."""
    states: set[ReplayState] = set()
    todo = set(NEXT[start])
    while todo:
        state = todo.pop()
        states.add(state)
        todo |= NEXT[state] - states
    return frozenset(states)


_REACHABLE = {state: reachable(state) for state in ReplayState}


class Control(StrEnum):
    """The requested action for a replay. `cancel` is final."""

    RUN = "run"
    PAUSE = "pause"
    CANCEL = "cancel"


@dataclass(slots=True)
class Replay:
    """One replay, folded from its records. The spec is None before its record was read."""

    id: str
    spec: Mapping[str, object] | None = None
    status: Mapping[str, object] = field(default_factory=dict)
    control: Control = Control.RUN

    @property
    def spec_fields(self) -> Mapping[str, Any]:
        """Return the fields of the spec; none before its record was read."""
        return self.spec or {}

    @property
    def created_ms(self) -> int:
        """Return the time of the request, in ms since 1970."""
        ms = self.spec_fields.get("created_ms", 0)
        return ms if isinstance(ms, int) else 0

    @property
    def is_copy(self) -> bool:
        """Return whether the runner copies it to a topic of its own."""
        return self.spec_fields.get("mode") == "topic"

    @property
    def state(self) -> ReplayState:
        """Return the state of the newest status record."""
        return ReplayState(str(self.status.get("state", ReplayState.PENDING)))

    @property
    def is_finished(self) -> bool:
        """Return whether no other state follows."""
        return self.state in FINISHED

    @property
    def topic(self) -> str:
        """Return the topic that the runner copies it to."""
        return TOPIC_PREFIX + self.id


class WaitingReplay(NamedTuple):
    """A replay that needs a runner. Times are in ms since 1970; `seen_ms`: the last heartbeat."""

    id: str
    created_ms: int
    seen_ms: int | None


class Registry:
    """The fold of the topic's records, in order. Records that make no sense are counted."""

    def __init__(self) -> None:
        self._replays: dict[str, Replay] = {}
        self.snapshots: dict[str, Mapping[str, object]] = {}
        self.runner: Mapping[str, object] = {}
        self.unread = 0

    def __iter__(self) -> Iterator[Replay]:
        """Iterate over the replays with a spec, oldest first."""
        replays = [replay for replay in self._replays.values() if replay.spec is not None]
        return iter(sorted(replays, key=lambda replay: (replay.created_ms, replay.id)))

    def get(self, replay_id: str) -> Replay | None:
        """Return a replay whose spec was read, or None."""
        replay = self._replays.get(replay_id)
        return None if replay is None or replay.spec is None else replay

    def see(self, key: bytes | None, value: bytes | None) -> None:
        """Fold one record; a value of None deletes its key."""
        name, _, what = (key or b"").decode("utf-8", "replace").rpartition("/")
        document = _read(value)
        if document is None and value is not None:
            self.unread += 1
        elif key == RUNNER_KEY:
            self.runner = document or {}
        elif name == _SNAPSHOT:
            self._see_snapshot(what, document)
        elif what in ("spec", "control", "status"):
            self._see_replay(name, what, document)
        elif what == _WANTED:  # for the mirror
            return
        else:
            self.unread += 1

    def _see_snapshot(self, name: str, document: Mapping[str, object] | None) -> None:
        if document is None:
            self.snapshots.pop(name, None)
        else:
            self.snapshots[name] = document

    def _see_replay(self, replay_id: str, what: str, document: Mapping[str, object] | None) -> None:
        if document is None:  # the three go together, in one transaction
            self._replays.pop(replay_id, None)
            return
        replay = self._replays.setdefault(replay_id, Replay(replay_id))
        if what == "spec":
            replay.spec = replay.spec or document
        elif what == "control":
            wanted = document.get("control")
            if wanted in list(Control) and replay.control is not Control.CANCEL:
                replay.control = Control(str(wanted))
        elif follows(replay.state, document.get("state")):
            replay.status = document


def follows(state: ReplayState, then: object) -> bool:
    """Return whether a status with the state `then` may follow one with `state`."""
    if then not in list(ReplayState):  # which may be of any shape
        return False
    return (then not in FINISHED and then == state) or then in _REACHABLE[state]


def deleted(topic: str) -> str:
    """Return the reason for the failure of a replay whose topic was deleted."""
    return f"topic {topic} was deleted or recreated by another program: request the replay again"


def record(
    replay_id: str, what: str, document: Mapping[str, object] | None
) -> tuple[bytes, bytes | None]:
    """Return a registry record's key and value; None deletes it. Raises TooLargeError."""
    value = None if document is None else _written(document)
    return f"{replay_id}/{what}".encode(), value


def snapshot_record(name: str, document: Mapping[str, object]) -> tuple[bytes, bytes]:
    """Return the key and value of a snapshot. Raises TooLargeError."""
    return f"{_SNAPSHOT}/{name}".encode(), _written(document)


def runner_record(document: Mapping[str, object]) -> tuple[bytes, bytes]:
    """Return the key and value of the runner's heartbeat."""
    return RUNNER_KEY, _written(document)


def wanted_record(topic: str, ends: Mapping[int, int]) -> tuple[bytes, bytes]:
    """Return the record that asks the mirror to copy partitions up to these offsets, exclusive."""
    document = {"ends": {str(partition): end for partition, end in ends.items()}}
    return f"{topic}/{_WANTED}".encode(), _written(document)


def read_wanted(key: bytes | None, value: bytes | None) -> dict[tuple[str, int], int]:
    """Read the offsets that a request waits for, by topic and partition; {} for other records."""
    topic, _, what = (key or b"").decode("utf-8", "replace").rpartition("/")
    ends = (_read(value) or {}).get("ends")
    if what != _WANTED or not isinstance(ends, dict):
        return {}
    return {
        (topic, int(partition)): end
        for partition, end in ends.items()
        if isinstance(end, int) and partition.isdecimal()
    }


def tombstones(replay_id: str) -> list[tuple[bytes, bytes | None]]:
    """Return the records that forget a replay; to be written in one transaction."""
    return [record(replay_id, what, None) for what in ("spec", "control", "status")]


def _written(document: Mapping[str, object]) -> bytes:
    written = json.dumps(document, separators=(",", ":")).encode()
    if len(written) > _MAX_BYTES:
        raise TooLargeError(f"{len(written)} bytes to keep, of at most {_MAX_BYTES}")
    return written


def _read(value: bytes | None) -> Mapping[str, object] | None:
    if value is None:
        return None
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def new_id(now_ms: int, random_bytes: bytes) -> str:
    """Return a UUIDv7 (RFC 9562, 5.7) made of a time and ten random bytes."""
    tail = int.from_bytes(random_bytes[:10], "big")
    number = (now_ms & 0xFFFFFFFFFFFF) << 80 | 0x7 << 76 | (tail >> 64 & 0xFFF) << 64
    return _uuid(number | 0b10 << 62 | tail & 0x3FFFFFFFFFFFFFFF)


def keyed_id(caller: str, idempotency_key: str) -> str:
    """Return the UUIDv8 (RFC 9562, 5.8) of a caller and an Idempotency-Key."""
    digest = hashlib.sha256(f"{len(caller)}:{caller}:{idempotency_key}".encode()).digest()
    number = int.from_bytes(digest[:16], "big")
    number &= ~(0xF << 76) & ~(0b11 << 62) & (1 << 128) - 1
    return _uuid(number | 0x8 << 76 | 0b10 << 62)


def _uuid(number: int) -> str:
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_MAX_KNOWN = 10_000
_ENDS = {
    ReplayState.READY: (Kind.REPLAY_DONE, "can be read"),
    ReplayState.COMPLETED: (Kind.REPLAY_DONE, "completed"),
    ReplayState.FAILED: (Kind.REPLAY_FAILED, "failed"),
    ReplayState.CANCELLED: (Kind.REPLAY_CANCELLED, "cancelled"),
    ReplayState.EXPIRED: (Kind.REPLAY_EXPIRED, "expired"),
}


class ReplayObserver:
    """A translation of changes of replays into entries of the installation log.

    A registry may be read for the first time long after the start, or again from its beginning:
    replays are remembered by id, also while a registry lacks them.

    Args:
        since_ms: Start of this gateway; earlier replays are not new.
    """

    def __init__(self, since_ms: int) -> None:
        self._since_ms = since_ms
        self._states: dict[str, ReplayState] = {}

    def see(self, replays: Iterable[Replay]) -> Iterator[NewEntry]:
        """Yield the entries of all replays that have changed."""
        for replay in replays:
            yield from self._changes(replay)
        while len(self._states) > _MAX_KNOWN:  # the oldest go first
            del self._states[next(iter(self._states))]

    def _changes(self, replay: Replay) -> Iterator[NewEntry]:
        before, now = self._states.get(replay.id), replay.state
        self._states[replay.id] = now
        is_new = before is None and replay.created_ms >= self._since_ms
        if is_new:
            text = f"{_named(replay)}: asked for"
            details = _details(replay)
            yield NewEntry(Kind.REPLAY_CREATED, replay.id, text, details, replay.created_ms)
        if now in _ENDS and before != now and (is_new or before is not None):
            kind, said = _ENDS[now]
            reason = _text(replay.status, "reason")
            text = f"{_named(replay)}: {said}{f': {reason}' if reason else ''}"
            details = _details(replay) | ({"reason": reason} if reason else {})
            at_ms = replay.status.get("at_ms")
            ended_ms = at_ms if isinstance(at_ms, int) else None
            yield NewEntry(kind, replay.id, text, details, ended_ms)


def _named(replay: Replay) -> str:
    spec = replay.spec_fields
    return f"{_text(spec, 'name') or replay.id} of {_text(spec, 'topic')}"


def _details(replay: Replay) -> dict[str, Detail]:
    spec = replay.spec_fields
    return {name: _text(spec, name) for name in ("name", "topic", "mode", "by")}


def _text(document: Mapping[str, object], name: str) -> str:
    text = document.get(name)
    return text if isinstance(text, str) else ""


def registry_topic(cluster: str, replication_factor: int) -> InternalTopic:
    """Return the topic of the registry of a backfill cluster."""
    configs = {"cleanup.policy": "compact", "unclean.leader.election.enable": "false"}
    return InternalTopic(REGISTRY_TOPIC, cluster, 1, replication_factor, configs)


def registry_faults(topic: TopicState) -> list[str]:
    """Return the faults of an existing registry, each with its fix."""
    wrong = []
    if topic.partitions != 1:
        wrong.append(f"it has {topic.partitions} partitions: delete it and run this again")
    if topic.cleanup_policy != "compact":
        wrong.append(f"cleanup.policy is {topic.cleanup_policy}: set it to compact")
    return wrong
