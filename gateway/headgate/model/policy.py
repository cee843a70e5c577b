# Not compiled: it has a dataclass with slots.
"""Policies of topics: the rules for their events, and the lookup of a topic's policy."""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from functools import cache, lru_cache
from hashlib import blake2b
from typing import (
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    cast,
    get_type_hints,
)

from headgate.model.oversize import SplitRule, Strategy
from headgate.model.schema import Schema
from headgate.model.topics import LONGEST_NAME, Globs, is_glob, literal_prefix, ties

# ---- declarations of options: the default, the bounds and the sentence that documents one
#
# Settings classes declare their fields with `option`. The loader, the reference file, the tables in
# docs/reference/options.md and the error texts all read the same declaration.


_ABOUT = "about"  # key in a field's metadata
Value = TypeVar("Value")


class Section(Protocol):
    """A dataclass of settings."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[object]]]


class About(NamedTuple):
    """Documentation and bounds of an option.

    Attributes:
        sentence: The description of the option, for the reference.
        minimum: The lower bound of a number, inclusive; None without one.
        maximum: The upper bound of a number, inclusive; None without one.
        example: TOML text that is shown if there is no default.
        derived: The rule for a value that is not set; empty if the default is just a value.
        secret: Whether to hide the value; `<name>_file` may then name a file that contains it.
    """

    sentence: str
    minimum: int | None
    maximum: int | None
    example: str
    derived: str
    secret: bool


class Option(NamedTuple):
    """An option of a section; `default` is `dataclasses.MISSING` if it is required."""

    name: str
    kind: object
    default: object
    about: About

    @property
    def required(self) -> bool:
        """Return whether there is no default."""
        return self.default is MISSING


def about(
    sentence: str,
    *,
    between: tuple[int, int] | None = None,
    example: str = "",
    derived: str = "",
    secret: bool = False,
) -> Mapping[str, About]:
    """Return the metadata that makes a field of a settings dataclass a required option.

    Args:
        sentence: The description of the option, for the reference.
        between: The bounds of a number, inclusive.
        example: As in `About`, like the other arguments.
    """
    minimum, maximum = between or (None, None)
    return {_ABOUT: About(sentence, minimum, maximum, example, derived, secret)}


def option(
    default: Value,
    sentence: str,
    *,
    between: tuple[int, int] | None = None,
    example: str = "",
    derived: str = "",
    secret: bool = False,
) -> Value:
    """Return a field of a settings dataclass that is an option with a default; see `about`."""
    text = about(sentence, between=between, example=example, derived=derived, secret=secret)
    return field(default=default, repr=not secret, metadata=text)


def options_of(section: type[Section]) -> Mapping[str, Option]:
    """Return the options that a settings dataclass declares, by name, in order."""
    return _declared(cast(Hashable, section))


@cache  # about ten classes, one of which has thousands of sections
def _declared(section: type[Section]) -> Mapping[str, Option]:
    kinds = get_type_hints(section)
    return {
        each.name: Option(each.name, kinds[each.name], each.default, each.metadata[_ABOUT])
        for each in dataclasses.fields(section)
        if _ABOUT in each.metadata
    }


INTERNAL_PREFIXES = ("__", "headgate.")  # Kafka's own topics, and the gateway's
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
_REMEMBERED_TOPICS = 4096  # names come from clients, so the cache must be bounded

Keyless = Literal["reject", "spread"]
Kind = Literal["event", "state"]
Suppress = Literal["off", "raw", "canonical"]
RedisLoss = Literal["publish", "refuse"]
Timestamp = Literal["arrival", "event"]
CompatJsonKeys = Literal["quoted", "plain"]
CompatTimestamps = Literal["take", "refuse"]
CloudEvents = Literal["binary", "structured"]


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """The options of a `[topics."<pattern>"]` section.

    Attributes:
        pattern: A topic name or a glob.
        schema: The compiled contents that `schema_file` had when the configuration was loaded.
    """

    pattern: str
    cluster: str = option(
        "",
        "The cluster that holds the topic.",
        derived="the only cluster of tier ingest",
        example='"main"',
    )
    key: tuple[str, ...] = option(
        (), "JSON Pointers whose values, joined with `:`, become the key of an event without one."
    )
    keyless: Keyless = option(
        "reject",
        "Events without a key: refuse them, or spread them over the partitions without order.",
    )
    kind: Kind = option(
        "event",
        "event: each record is something that happened. state: each record is the newest state of "
        "its key.",
    )
    suppress: Suppress = option(
        "off",
        "Whether to drop events that equal the newest record of their key: by their bytes (raw) "
        "or by their JSON value (canonical).",
    )
    ignore: tuple[str, ...] = option(
        (), "JSON Pointers that canonical comparison ignores, such as a time of update."
    )
    canonical_max_bytes: int = option(
        4_000_000,
        "Largest value, in bytes, that is compared by its JSON value. Larger values are compared "
        "by their bytes.",
        between=(1024, 1_073_741_824),
    )
    redis_loss: RedisLoss = option(
        "publish", "While Redis is unavailable: publish without a comparison, or refuse (503)."
    )
    dedupe_ttl_s: int | None = option(
        None,
        "Seconds for which an event id is remembered. A repeat is answered `duplicate`, and "
        "an id with other content 422 `idempotency_mismatch`.",
        between=(1, 2_592_000),
        example="86400",
    )
    max_bytes: int | None = option(
        None,
        "Largest accepted value, in bytes. The topic's limit in Kafka applies as well.",
        between=(1, 1_073_741_824),
        example="1048576",
    )
    oversize: tuple[Strategy, ...] = option(
        ("reject",),
        "Strategies for events that are too large, tried in this order. If none succeeds, the "
        "event is rejected.",
    )
    split: SplitRule | None = option(
        None,
        "For the strategy split: JSON Pointers to an array and to the key in each element.",
        example='{pointer = "/options", key = "/id"}',
    )
    timestamp: Timestamp = option(
        "arrival", "Timestamp of the record: arrival at the gateway, or the event's own time."
    )
    compat_json_keys: CompatJsonKeys = option(
        "quoted",
        "JSON keys in Confluent's REST API: their JSON text with quotes, as the REST Proxy writes "
        "it, or the plain text.",
    )
    compat_timestamps: CompatTimestamps = option(
        "take",
        "Timestamps in Confluent's REST API: use them, as the REST Proxy does, or refuse records "
        "that have one (422).",
    )
    cloudevents: CloudEvents = option(
        "binary",
        "Form of CloudEvents in Kafka: headers with the bytes of the data, or the whole JSON.",
    )
    schema_file: str | None = option(
        None,
        "Path of a JSON Schema (2020-12). Events that violate it are refused (422).",
        example='"schemas/deals.json"',
    )
    schema: Schema | None = field(default=None, repr=False)
    spool: bool = option(
        False,
        "Whether events are stored on disk ([spool] path) and answered `spooled` (202) if Kafka "
        "does not acknowledge them in time.",
    )
    spool_after_ms: int = option(
        2_000,
        "Longest wait for Kafka before an event is spooled. If Kafka is known to be unavailable, "
        "the event is spooled at once.",
        between=(50, _HOUR_MS),
    )
    facts: bool = option(
        False,
        "Whether events without a record of their own (unchanged, superseded, duplicate, "
        "rejected) are reported to the topic headgate.facts, for the skew audit.",
    )
    facts_one_in: int = option(
        1,
        "Report one in this many of them, chosen at random. The audit scales its counts up.",
        between=(1, 1_000_000),
    )
    coalesce_quiet_ms: int | None = option(
        None,
        "For state topics: hold the events of a key until none has arrived for this long, then "
        "publish the last one. Held events are answered `held`. `headgate init` must have created "
        "the held topic.",
        between=(1, _HOUR_MS),
        example="2000",
    )
    coalesce_max_delay_ms: int | None = option(
        None,
        "Longest time for which a key is held, however often it changes.",
        between=(1, _HOUR_MS),
        derived="5 x coalesce_quiet_ms",
        example="10000",
    )
    coalesce_leading: bool = option(
        False,
        "Whether the first event of a quiet key is published at once. The events after it are "
        "held.",
    )
    coalesce_burst_max_ms: int = option(
        600_000,
        "Longest time for which a burst (`Headgate-Burst`) holds a key without a commit.",
        between=(1, _DAY_MS),
    )
    coalesce_max_keys: int = option(
        20_000,
        "Most held keys in each partition of the held topic. Above it the oldest are published "
        "early.",
        between=(1, 10_000_000),
    )
    coalesce_max_bytes: int = option(
        33_554_432,
        "Most memory of held events, in bytes, in each partition of the held topic. Above it the "
        "oldest are published early.",
        between=(1024, 17_179_869_184),
    )
    coalesce_partitions: int = option(
        12,
        "Number of partitions of the held topic that `headgate init` creates. It can never be "
        "changed.",
        between=(1, 1000),
    )

    @property
    def coalesces(self) -> bool:
        """Return whether the policy holds events."""
        return self.coalesce_quiet_ms is not None


def key_rule(policy: TopicPolicy) -> bytes:
    """Return 8 bytes, a hash of the rules for keys.

    While gateways have different rules, nothing is suppressed, because one entity has two keys.
    """
    return blake2b(repr((policy.key, policy.keyless)).encode(), digest_size=8).digest()


def fingerprint(policy: TopicPolicy) -> str:
    """Return 16 hex digits, a hash of the rules that decide whether two events are equal.

    It keys the topic's digests, so contents that were compared by other rules never match. A change
    of these rules starts suppression anew; a change of limits or quotas does not. The hash is the
    same in every process and version of Python.
    """
    decides: tuple[object, ...] = (
        policy.key,
        policy.keyless,
        policy.suppress,
        policy.oversize,
        policy.cloudevents,
    )
    if policy.suppress == "canonical":
        decides = (*decides, sorted(policy.ignore))
    return blake2b(repr(decides).encode(), digest_size=8).hexdigest()


class PolicyTable:
    """Lookup of policies: the exact name first, then the glob with the longest prefix.

    Globs never match internal topics.

    Raises:
        ValueError: Two patterns tie.
    """

    __slots__ = ("_exact", "_first_glob", "_globs", "_prefixes", "policies")

    def __init__(self, policies: Sequence[TopicPolicy]) -> None:
        tied = next(ties(policy.pattern for policy in policies), None)
        if tied is not None:
            raise ValueError(f"topic patterns that tie: {tied}")
        self.policies = tuple(policies)
        self._exact = {each.pattern: each for each in policies if not is_glob(each.pattern)}
        self._globs: dict[str, list[tuple[Globs, TopicPolicy]]] = {}  # by literal prefix
        for each in policies:
            if is_glob(each.pattern):
                same = self._globs.setdefault(literal_prefix(each.pattern), [])
                same.append((Globs((each.pattern,)), each))
        self._prefixes = sorted({len(prefix) for prefix in self._globs}, reverse=True)
        self._first_glob = lru_cache(_REMEMBERED_TOPICS)(self._match_globs)

    def refusing(self, topics: Iterable[str]) -> frozenset[str]:
        """Return the topics that refuse events while Redis is unavailable."""
        matches = ((name, self.match(name)) for name in topics)
        return frozenset(
            name for name, policy in matches if policy is not None and policy.redis_loss == "refuse"
        )

    def match(self, topic: str) -> TopicPolicy | None:
        """Return the policy of a topic, or None if no pattern matches its name."""
        exact = self._exact.get(topic)
        if exact is not None:
            return exact
        if len(topic) > LONGEST_NAME:  # clients choose names freely, and the names are cached
            return None
        return self._first_glob(topic)

    def _match_globs(self, topic: str) -> TopicPolicy | None:
        if topic.startswith(INTERNAL_PREFIXES):
            return None
        alike = (self._globs.get(topic[:size], ()) for size in self._prefixes)
        matches = (policy for globs in alike for glob, policy in globs if glob.match(topic))
        return next(matches, None)
