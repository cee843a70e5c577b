"""What Kafka says of a topic: its settings, and the rules that they make together."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import chain, combinations, product
from types import MappingProxyType
from typing import Final, NamedTuple

# aiokafka's own limits aside, the broker measures a whole batch; the slack covers what our
# estimate of a batch may miss (varints, the batch header, a codec that inflates).
SLACK_RATIO = 0.01
SLACK_BYTES = 1024
LONGEST_NAME = 249  # org.apache.kafka.common.internals.Topic
_UNLIMITED: Final = 2**63 - 1


class TopicRules(NamedTuple):
    """What a topic's settings mean together. Most of them count only where another one allows it.

    deletes, compacts: what Kafka does with old records.
    kept_ms: the age at which retention removes records; None = at none (only what `deletes` has
    retention by time).
    compacted_after_ms: the age from which on compaction may remove all but the newest record of a
    key; None = at none.
    is_stamped: Kafka gives records the time at which it appends them, whatever time they bring.
    before_ms, after_ms: how far a record's own time may lie behind or ahead of the broker's clock;
    None = any distance, as for every time that Kafka overwrites.
    """

    deletes: bool
    compacts: bool
    kept_ms: int | None
    compacted_after_ms: int | None
    is_stamped: bool
    before_ms: int | None
    after_ms: int | None


class TopicState(NamedTuple):
    """One topic as last read from its cluster.

    topic_id: Kafka's 16-byte id; a topic that was deleted and created again has another one.
    max_message_bytes: the topic's real limit in bytes, per batch, after compression.
    The fields are Kafka's settings as they are; `rules` has what they mean together.
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
        """The rules that Kafka makes of these settings."""
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
        """The most bytes of records that a lane may put into one batch of this topic."""
        return max(1, int(self.max_message_bytes * (1 - SLACK_RATIO)) - SLACK_BYTES)


# Kafka's name of each setting, the field that has it, and how its text is read.
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
# The common limit of Kafka before 4.0. A limit of its own for each direction came in 3.6, and
# counts where it is not the default, which is none (storage.internals.log.LogConfig).
_DIFFERENCE: Final = "message.timestamp.difference.max.ms"
_DIRECTIONS: Final = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
SETTINGS: Final = (*_FIELDS, _DIFFERENCE)  # to ask Kafka for


def with_settings(state: TopicState, settings: Mapping[str, str | None]) -> TopicState:
    """Return the state with a topic's settings.

    Args:
        settings: Kafka's names and values; what is missing or None stays as it is.
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
    """One partition as its cluster describes it. leader, replicas, in_sync: node ids, leader -1 =
    none."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


# Globs of topic names: what they match, and which of two goes first.


_WILDCARDS = "*?"


def is_glob(pattern: str) -> bool:
    """Whether the pattern has a wildcard: `*` = any characters, `?` = one."""
    return any(sign in pattern for sign in _WILDCARDS)


def literal_prefix(pattern: str) -> str:
    """The pattern up to its first wildcard."""
    return re.split(r"[*?]", pattern, maxsplit=1)[0]


def literal_suffix(pattern: str) -> str:
    """The pattern from behind its last wildcard."""
    return re.split(r"[*?]", pattern)[-1]


def overlap(one: str, other: str) -> bool:
    """Whether some name matches both globs (a walk over the pairs of places in the two)."""
    seen, todo = set(), [(0, 0)]
    while todo:
        at = todo.pop()
        if at == (len(one), len(other)):
            return True
        if at not in seen:
            seen.add(at)
            todo += _next_places(one, other, *at)
    return False


def ties(patterns: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of globs between which no rule decides: equally long literal prefix, a name for both.

    Two prefixes of one name that are equally long are the same text, so only globs with the very
    same prefix can tie; and of two suffixes of one name the shorter one ends the other. So only
    globs that are alike at both ends are compared, not each with each.
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
    """Several globs; a name matches when one of them does.

    Compiled at the first match, and then for good: a configuration may have thousands, most of
    which are not needed soon, and re's own cache forgets all but the last 512.
    """

    __slots__ = ("_expression", "patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        self._expression: re.Pattern[str] | None = None

    def match(self, name: str) -> bool:
        """Whether one of them matches this topic name; without any, none does."""
        if self._expression is None:
            joined = "|".join(map(_expression, self.patterns)) if self.patterns else r"(?!)"
            self._expression = re.compile(joined, re.DOTALL)
        return self._expression.fullmatch(name) is not None


def _expression(pattern: str) -> str:
    """Each literal is taken where it first fits, for good (`(?>`): going back finds no match that
    this does not find, and with several `*` would take the power of their number."""
    first, *parts = [re.escape(part).replace(r"\?", ".") for part in pattern.split("*")]
    if not parts:
        return first
    *middle, last = parts
    return first + "".join(f"(?>.*?{part})" for part in middle if part) + f".*{last}"


def _next_places(one: str, other: str, i: int, j: int) -> list[tuple[int, int]]:
    a, b = one[i : i + 1], other[j : j + 1]
    places = []
    if a == "*":
        places += [(i + 1, j)] + ([(i, j + 1)] if b not in ("", "*") else [])
    if b == "*":
        places += [(i, j + 1)] + ([(i + 1, j)] if a not in ("", "*") else [])
    if a and b and "*" not in (a, b) and (a == b or "?" in (a, b)):
        places.append((i + 1, j + 1))
    return places


# The topic that a client may have meant by a name that is not served.


_REFRESH_S: Final = 5.0
_PER_REFRESH: Final = (
    20  # new names that are compared, each in some ms if there are very many topics
)
_COMPARED: Final = 200  # topics, for each name
_LENGTHS: Final = 2  # how much longer or shorter a topic may be
_KEPT: Final = 5  # topics for each name: a caller may not write to all of them


class SimilarTopics:
    """Finds similar names among the topics that are served, with a bound on the work.

    Clients choose names freely, so the work must not grow with the number of their requests. Names
    that were compared are remembered, and only some new ones are compared in a period.

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
        return [alike[lower] for lower in get_close_matches(wanted, alike, _KEPT, 0.75)]


# A producer's quota: a token bucket that is told the time.


def quota_policy(name: str, per_second: int) -> str:
    """One item of RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-10, section 3).

    The draft has a unit for bytes; it knows none for events.
    """
    unit = ';qu="content-bytes"' if name == "bytes" else ""
    return f'"{name}";q={max(1, per_second)};w=1{unit}'


class TokenBucket:
    """Tokens that come back at a steady rate.

    per_second: tokens regained a second; the bucket holds one second's worth (at least one), so a
    producer may send its second's quota at once.
    """

    __slots__ = ("_at", "_level", "capacity", "per_second")

    def __init__(self, per_second: float, now: float) -> None:
        self.per_second = per_second
        self.capacity = max(per_second, 1.0)
        self._level = self.capacity
        self._at = now

    def _refill(self, now: float) -> None:
        gained = (now - self._at) * self.per_second
        self._level = min(self.capacity, self._level + max(0.0, gained))
        self._at = now

    def wait(self, tokens: float, now: float) -> float:
        """Seconds until so many tokens are there; 0 when they are there now.

        More than the bucket holds are lent: such a batch waits for a full bucket and leaves a
        debt, instead of never getting through.
        """
        self._refill(now)
        needed = min(tokens, self.capacity)
        return max(0.0, (needed - self._level) / self.per_second)

    def take(self, tokens: float) -> None:
        """Spend tokens; call it after `wait` answered 0."""
        self._level -= tokens

    def seconds_to_full(self) -> int:
        """Until the whole of it may be sent at once, rounded up."""
        return math.ceil((self.capacity - self._level) / self.per_second)

    def remaining(self) -> int:
        return max(0, math.floor(self._level))
