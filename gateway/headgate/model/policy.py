# Not compiled: it has a dataclass with slots.
"""Policies of topics: the rules for their events, and the lookup of a topic's policy."""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from functools import cache, lru_cache
from hashlib import blake2b
from typing import (
    Annotated,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    cast,
    get_args,
    get_type_hints,
)

from headgate.model.oversize import SplitRule, Strategy
from headgate.model.schema import Schema
from headgate.model.topics import LONGEST_NAME, Globs, is_glob, literal_prefix, ties

# Declarations of options: the default, the bounds and the sentence that documents one.
#
# Settings classes annotate their fields with `about`. The loader, the reference file, the tables in
# docs/reference/options.md and the error texts all read the same declaration.


class Section(Protocol):
    """A dataclass of settings."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[object]]]


class About(NamedTuple):
    """Documentation and bounds of an option.

    Attributes:
        sentence: The description of the option, for the reference.
        minimum: The lower bound of a number, inclusive.
        maximum: The upper bound of a number, inclusive.
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
    minimum: int | None = None,
    maximum: int | None = None,
    example: str = "",
    derived: str = "",
    secret: bool = False,
) -> About:
    """Make a field of a settings dataclass an option: `Annotated[int, about("...")]`."""
    return About(sentence, minimum, maximum, example, derived, secret)


def options_of(section: type[Section]) -> Mapping[str, Option]:
    """Return the options that a settings dataclass declares, by name, in order."""
    return _declared(cast(Hashable, section))


@cache  # about ten classes, one of which has thousands of sections
def _declared(section: type[Section]) -> Mapping[str, Option]:
    hints = get_type_hints(section, include_extras=True)
    options = {}
    for each in dataclasses.fields(section):
        kind, *extras = get_args(hints[each.name]) or (None,)
        if extras and isinstance(extras[-1], About):
            options[each.name] = Option(each.name, kind, each.default, extras[-1])
    return options


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
    cluster: Annotated[
        str,
        about(
            "The cluster that holds the topic.",
            derived="the only cluster of tier ingest",
            example='"main"',
        ),
    ] = ""
    key: Annotated[
        tuple[str, ...],
        about(
            "JSON Pointers whose values, joined with `:`, become the key of an event without one."
        ),
    ] = ()
    keyless: Annotated[
        Keyless,
        about(
            "Events without a key: refuse them, or spread them over the partitions without order."
        ),
    ] = "reject"
    kind: Annotated[
        Kind,
        about(
            "event: each record is something that happened. state: each record is the newest "
            "state of its key."
        ),
    ] = "event"
    suppress: Annotated[
        Suppress,
        about(
            "Whether to drop events that equal the newest record of their key: by their bytes "
            "(raw) or by their JSON value (canonical)."
        ),
    ] = "off"
    ignore: Annotated[
        tuple[str, ...],
        about("JSON Pointers that canonical comparison ignores, such as a time of update."),
    ] = ()
    canonical_max_bytes: Annotated[
        int,
        about(
            "Largest value, in bytes, that is compared by its JSON value. Larger values are "
            "compared by their bytes.",
            minimum=1024,
            maximum=1_073_741_824,
        ),
    ] = 4_000_000
    redis_loss: Annotated[
        RedisLoss,
        about("While Redis is unavailable: publish without a comparison, or refuse (503)."),
    ] = "publish"
    dedupe_ttl_s: Annotated[
        int | None,
        about(
            "Seconds for which an event id is remembered. A repeated id is answered `duplicate`.",
            minimum=1,
            maximum=2_592_000,
            example="86400",
        ),
    ] = None
    max_bytes: Annotated[
        int | None,
        about(
            "Largest accepted value, in bytes. The topic's limit in Kafka applies as well.",
            minimum=1,
            maximum=1_073_741_824,
            example="1048576",
        ),
    ] = None
    oversize: Annotated[
        tuple[Strategy, ...],
        about(
            "Strategies for events that are too large, tried in this order. If none succeeds, the "
            "event is rejected."
        ),
    ] = ("reject",)
    split: Annotated[
        SplitRule | None,
        about(
            "For the strategy split: JSON Pointers to an array and to the key in each element.",
            example='{pointer = "/options", key = "/id"}',
        ),
    ] = None
    timestamp: Annotated[
        Timestamp,
        about("Timestamp of the record: arrival at the gateway, or the event's own time."),
    ] = "arrival"
    compat_json_keys: Annotated[
        CompatJsonKeys,
        about(
            "JSON keys in Confluent's REST API: their JSON text with quotes, as the REST Proxy "
            "writes it, or the plain text."
        ),
    ] = "quoted"
    compat_timestamps: Annotated[
        CompatTimestamps,
        about(
            "Timestamps in Confluent's REST API: use them, as the REST Proxy does, or refuse "
            "records that have one (422)."
        ),
    ] = "take"
    cloudevents: Annotated[
        CloudEvents,
        about(
            "Form of CloudEvents in Kafka: headers with the bytes of the data, or the whole JSON."
        ),
    ] = "binary"
    schema_file: Annotated[
        str | None,
        about(
            "Path of a JSON Schema (2020-12). Events that violate it are refused (422).",
            example='"schemas/deals.json"',
        ),
    ] = None
    schema: Schema | None = field(default=None, repr=False)
    spool: Annotated[
        bool,
        about(
            "Whether events are stored on disk ([spool] path) and answered `spooled` (202) if "
            "Kafka does not acknowledge them in time."
        ),
    ] = False
    spool_after_ms: Annotated[
        int,
        about(
            "Longest wait for Kafka before an event is spooled. If Kafka is known to be "
            "unavailable, the event is spooled at once.",
            minimum=50,
            maximum=_HOUR_MS,
        ),
    ] = 2_000
    facts: Annotated[
        bool,
        about(
            "Whether events without a record of their own (unchanged, superseded, duplicate, "
            "rejected) are reported to the topic headgate.facts, for the skew audit."
        ),
    ] = False
    facts_one_in: Annotated[
        int,
        about(
            "Report one in this many of them, chosen at random. The audit scales its counts up.",
            minimum=1,
            maximum=1_000_000,
        ),
    ] = 1
    coalesce_quiet_ms: Annotated[
        int | None,
        about(
            "For state topics: hold the events of a key until none has arrived for this long, "
            "then publish the last one. Held events are answered `held`. `headgate init` must "
            "have created the held topic.",
            minimum=1,
            maximum=_HOUR_MS,
            example="2000",
        ),
    ] = None
    coalesce_max_delay_ms: Annotated[
        int | None,
        about(
            "Longest time for which a key is held, however often it changes.",
            minimum=1,
            maximum=_HOUR_MS,
            derived="5 x coalesce_quiet_ms",
            example="10000",
        ),
    ] = None
    coalesce_leading: Annotated[
        bool,
        about(
            "Whether the first event of a quiet key is published at once. The events after it are "
            "held."
        ),
    ] = False
    coalesce_burst_max_ms: Annotated[
        int,
        about(
            "Longest time for which a burst (`Headgate-Burst`) holds a key without a commit.",
            minimum=1,
            maximum=_DAY_MS,
        ),
    ] = 600_000
    coalesce_max_keys: Annotated[
        int,
        about(
            "Most held keys in each partition of the held topic. Above it the oldest are "
            "published early.",
            minimum=1,
            maximum=10_000_000,
        ),
    ] = 20_000
    coalesce_max_bytes: Annotated[
        int,
        about(
            "Most memory of held events, in bytes, in each partition of the held topic. Above it "
            "the oldest are published early.",
            minimum=1024,
            maximum=17_179_869_184,
        ),
    ] = 33_554_432
    coalesce_partitions: Annotated[
        int,
        about(
            "Number of partitions of the held topic that `headgate init` creates. It can never be "
            "changed.",
            minimum=1,
            maximum=1000,
        ),
    ] = 12

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
