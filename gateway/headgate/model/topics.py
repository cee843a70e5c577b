# Not compiled: an event only reads the fields of its states.
"""State of a topic in Kafka: its settings, and the rules that follow from them."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, combinations, product
from types import MappingProxyType
from typing import Final, NamedTuple

from headgate.model.text import similar

# The broker measures a whole batch. The slack covers parts of a batch that our estimate may miss
# (varints, the batch header, a codec that inflates).
SLACK_RATIO = 0.01
SLACK_BYTES = 1024
LONGEST_NAME = 249  # org.apache.kafka.common.internals.Topic
_UNLIMITED: Final = 2**63 - 1


class TopicRules(NamedTuple):
    """The effective rules of a topic. Most settings apply only if another setting allows it.

    Attributes:
        deletes: Whether Kafka deletes old records.
        compacts: Whether Kafka compacts the topic.
        kept_ms: The age at which retention deletes records; None for no limit.
        compacted_after_ms: The age from which compaction may remove all but the newest record of a
            key; None for never.
        is_stamped: Whether Kafka overwrites timestamps with the time of the append.
        before_ms: How far a record's own time may be behind the broker's clock; None for any
            distance, as for every time that Kafka overwrites.
        after_ms: The same for times ahead of the broker's clock.
    """

    deletes: bool
    compacts: bool
    kept_ms: int | None
    compacted_after_ms: int | None
    is_stamped: bool
    before_ms: int | None
    after_ms: int | None


class TopicState(NamedTuple):
    """A topic as last read from its cluster.

    The fields are Kafka's raw settings; `rules` has the effective rules.

    Attributes:
        topic_id: Kafka's 16-byte id; a topic that was deleted and created again has another one.
        max_message_bytes: The topic's limit of a batch after compression, in bytes.
    """

    name: str
    cluster: str
    topic_id: bytes
    partitions: int
    max_message_bytes: int = 1_048_588
    cleanup_policy: str = "delete"
    retention_ms: int = 604_800_000
    timestamp_type: str = "CreateTime"
    timestamp_before_max_ms: int = _UNLIMITED
    timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    min_compaction_lag_ms: int = 0

    @property
    def rules(self) -> TopicRules:
        """Return the effective rules of these settings."""
        policies = self.cleanup_policy.split(",")
        deletes, compacts = "delete" in policies, "compact" in policies
        is_stamped = self.timestamp_type == "LogAppendTime"
        return TopicRules(
            deletes,
            compacts,
            self.retention_ms if deletes and self.retention_ms >= 0 else None,
            self.min_compaction_lag_ms if compacts else None,
            is_stamped,
            None if is_stamped else _limit(self.timestamp_before_max_ms),
            None if is_stamped else _limit(self.timestamp_after_max_ms),
        )

    @property
    def batch_limit_bytes(self) -> int:
        """Return the maximum bytes of records in a lane's batch for this topic."""
        return max(1, int(self.max_message_bytes * (1 - SLACK_RATIO)) - SLACK_BYTES)


# Kafka's name of each setting, its field in TopicState, and the parser of its text.
_FIELDS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = MappingProxyType(
    {
        "max.message.bytes": ("max_message_bytes", int),
        "cleanup.policy": ("cleanup_policy", str),
        "retention.ms": ("retention_ms", int),
        "message.timestamp.type": ("timestamp_type", str),
        "message.timestamp.before.max.ms": ("timestamp_before_max_ms", int),
        "message.timestamp.after.max.ms": ("timestamp_after_max_ms", int),
        "compression.type": ("compression_type", str),
        "min.insync.replicas": ("min_insync_replicas", int),
        "unclean.leader.election.enable": ("unclean_leader_election", "true".__eq__),
        "min.compaction.lag.ms": ("min_compaction_lag_ms", int),
    }
)
# The common limit of Kafka before 4.0. Kafka 3.6 added a limit for each direction, which applies
# if it is not the default of no limit (storage.internals.log.LogConfig).
_DIFFERENCE: Final = "message.timestamp.difference.max.ms"
_DIRECTIONS: Final = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
SETTINGS: Final = (*_FIELDS, _DIFFERENCE)  # to ask Kafka for


def with_settings(state: TopicState, settings: Mapping[str, str | None]) -> TopicState:
    """Return the state with a topic's settings.

    Args:
        state: The state to update.
        settings: Kafka's names and values; missing settings and None leave a field unchanged.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    common = given.get(_DIFFERENCE)
    if common is not None:
        for name in _DIRECTIONS:
            if int(given.get(name, _UNLIMITED)) == _UNLIMITED:
                given[name] = common
    fields = {
        field: parse(given[name]) for name, (field, parse) in _FIELDS.items() if name in given
    }
    return state._replace(**fields)  # type: ignore[arg-type]


def _limit(distance_ms: int) -> int | None:
    return None if distance_ms == _UNLIMITED else distance_ms


class PartitionState(NamedTuple):
    """A partition as its cluster describes it.

    Attributes:
        partition: The number of the partition.
        leader: The node id of the leader; -1 if there is none.
        replicas: The node ids of the replicas.
        in_sync: The node ids of the replicas that are in sync.
    """

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


# ---- globs of topic names, and their precedence


_WILDCARDS = "*?"


def is_glob(pattern: str) -> bool:
    """Return whether the pattern has a wildcard: `*` for any characters, `?` for one."""
    return any(sign in pattern for sign in _WILDCARDS)


def literal_prefix(pattern: str) -> str:
    """Return the pattern up to its first wildcard."""
    return re.split(r"[*?]", pattern, maxsplit=1)[0]


def literal_suffix(pattern: str) -> str:
    """Return the pattern after its last wildcard."""
    return re.split(r"[*?]", pattern)[-1]


def overlap(glob: str, other: str) -> bool:
    """Return whether a name can match both globs (a search over pairs of positions)."""
    seen, todo = set(), [(0, 0)]
    while todo:
        at = todo.pop()
        if at == (len(glob), len(other)):
            return True
        if at not in seen:
            seen.add(at)
            todo += _next_places(glob, other, *at)
    return False


def ties(patterns: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of globs with equal precedence: equally long prefixes and a common name.

    Two equally long prefixes of one name are the same text, so only globs with the same prefix can
    tie. The shorter of two suffixes of one name is a suffix of the longer one. Therefore only globs
    with such prefixes and suffixes are compared.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for glob in sorted({pattern for pattern in patterns if is_glob(pattern)}):
        alike.setdefault((literal_prefix(glob), literal_suffix(glob)), []).append(glob)
    for (prefix, suffix), globs in alike.items():
        pairs = chain(
            combinations(globs, 2),
            *(
                product(globs, alike.get((prefix, suffix[start:]), ()))
                for start in range(1, len(suffix) + 1)
            ),
        )
        for glob_a, other in pairs:
            if overlap(glob_a, other):
                yield min(glob_a, other), max(glob_a, other)


class Globs:
    """A set of globs; a name matches if any of them matches.

    The first match compiles the globs once. A configuration may have thousands of sets that are not
    used soon, and the cache of `re` keeps only the last 512 patterns.
    """

    __slots__ = ("_expression", "patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        self._expression: re.Pattern[str] | None = None

    def match(self, name: str) -> bool:
        """Return whether any of the globs matches this topic name."""
        if self._expression is None:
            joined = "|".join(map(_expression, self.patterns)) if self.patterns else r"(?!)"
            self._expression = re.compile(joined, re.DOTALL)
        return self._expression.fullmatch(name) is not None


def _expression(pattern: str) -> str:
    """Return the regular expression of a glob.

    Each literal matches at its first occurrence, without backtracking (`(?>`). Backtracking would
    find no further matches, and would take exponential time with several `*`.
    """
    first, *parts = [re.escape(part).replace(r"\?", ".") for part in pattern.split("*")]
    if not parts:
        return first
    *middle, last = parts
    return first + "".join(f"(?>.*?{part})" for part in middle if part) + f".*{last}"


def _next_places(glob: str, other: str, i: int, j: int) -> list[tuple[int, int]]:
    a, b = glob[i : i + 1], other[j : j + 1]
    places = []
    if a == "*":
        places += [(i + 1, j)] + ([(i, j + 1)] if b not in ("", "*") else [])
    if b == "*":
        places += [(i, j + 1)] + ([(i + 1, j)] if a not in ("", "*") else [])
    if a and b and "*" not in (a, b) and (a == b or "?" in (a, b)):
        places.append((i + 1, j + 1))
    return places


# ---- suggestions for unknown topic names


_REFRESH_S: Final = 5.0
_PER_REFRESH: Final = 20  # new names to compare, each within a few ms if there are very many topics
_COMPARED: Final = 200  # topics, for each name
_LENGTHS: Final = 2  # maximum difference of the lengths
_KEPT: Final = 5  # topics for each name, because a caller may not write to all of them


class SimilarTopics:
    """Search for similar names among the served topics, with bounded work.

    Clients choose names freely, so the work must not grow with the number of their requests.
    Results are cached, and each period compares only a few new names.

    Args:
        served: Returns the names of the topics that are served now.
        clock: Monotonic clock, in seconds.
    """

    def __init__(self, served: Callable[[], Iterable[str]], clock: Callable[[], float]) -> None:
        self._served = served
        self._clock = clock
        self._until_s = float("-inf")
        self._names: tuple[str, ...] = ()
        self._known: dict[str, list[str]] = {}

    def find(self, topic: str, may_post: Callable[[str], bool]) -> str | None:
        """Return the most similar topic that the caller may write to, or None.

        A topic that the caller may not write to is never named.
        """
        now_s = self._clock()
        if now_s >= self._until_s:
            self._until_s = now_s + _REFRESH_S
            self._names, self._known = tuple(self._served()), {}
        if topic not in self._known:
            if len(self._known) >= _PER_REFRESH:
                return None
            self._known[topic] = self._compare(topic)
        return next(filter(may_post, self._known[topic]), None)

    def _compare(self, topic: str) -> list[str]:
        wanted, length = topic.lower(), len(topic)
        if not wanted:
            return []
        ends = {wanted[0], wanted[-1]}
        alike: dict[str, str] = {}
        for name in self._names:
            lower = name.lower()
            if abs(len(name) - length) <= _LENGTHS and (lower[0] in ends or lower[-1] in ends):
                alike.setdefault(lower, name)
                if len(alike) == _COMPARED:
                    break
        return [alike[lower] for lower in similar(wanted, alike, _KEPT, 0.75)]


# ---- a producer's quota: a token bucket


def quota_policy(name: str, per_second: int) -> str:
    """Return an item of RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-10, section 3).

    The draft has a unit for bytes, and none for events.
    """
    unit = ';qu="content-bytes"' if name == "bytes" else ""
    return f'"{name}";q={max(1, per_second)};w=1{unit}'


class TokenBucket:
    """A token bucket, refilled at a steady rate.

    The bucket holds the tokens of one second, at least one token. A producer may therefore send its
    quota of a second at once.

    Args:
        per_second: Tokens that return each second.
        now_s: The current time, in seconds.
    """

    __slots__ = ("_at", "_level", "capacity", "per_second")

    def __init__(self, per_second: float, now_s: float) -> None:
        self.per_second = per_second
        self.capacity = max(per_second, 1.0)
        self._level = self.capacity
        self._at = now_s

    def _refill(self, now_s: float) -> None:
        gained = (now_s - self._at) * self.per_second
        self._level = min(self.capacity, self._level + max(0.0, gained))
        self._at = now_s

    def wait(self, tokens: float, now_s: float) -> float:
        """Return the seconds until this many tokens are available; 0 if they are available now.

        A batch that needs more tokens than the bucket holds waits for a full bucket and leaves a
        debt; otherwise it would wait for ever.
        """
        self._refill(now_s)
        needed = min(tokens, self.capacity)
        return max(0.0, (needed - self._level) / self.per_second)

    def take(self, tokens: float) -> None:
        """Spend tokens; call it after `wait` returned 0."""
        self._level -= tokens

    def seconds_to_full(self) -> int:
        """Return the seconds until the bucket is full, rounded up."""
        return math.ceil((self.capacity - self._level) / self.per_second)

    def remaining(self) -> int:
        return max(0, math.floor(self._level))
