"""What a topic's events may look like and what is done with them, and which policy a topic has."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, Literal

from headgate.core.option import about
from headgate.core.oversize.strategies import SplitRule, Strategy
from headgate.core.schema import Schema
from headgate.core.topics.globs import Globs, is_glob, literal_prefix, ties
from headgate.core.topics.topic import LONGEST_NAME

INTERNAL_PREFIXES = ("__", "headgate.")  # Kafka's own topics, and the gateway's
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
_REMEMBERED_TOPICS = 4096  # names come from clients: the memory for them must be bounded

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
    """The options of one `[topics."<pattern>"]` section. pattern: a topic name, or a glob.

    schema: `schema_file` as it was when the configuration was loaded, compiled.
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
            "JSON Pointers whose values, joined with `:`, are the key of an event that brings none."
        ),
    ] = ()
    keyless: Annotated[
        Keyless, about("What an event without a key gets: a refusal, or any partition (no order).")
    ] = "reject"
    kind: Annotated[
        Kind,
        about("Whether each record is something that happened, or the newest state of its key."),
    ] = "event"
    suppress: Annotated[
        Suppress,
        about(
            "Whether an event is left out whose bytes (raw) or whose JSON value (canonical) equal "
            "those of its key's newest record."
        ),
    ] = "off"
    ignore: Annotated[
        tuple[str, ...],
        about("JSON Pointers to what canonical comparison leaves out, such as a time of update."),
    ] = ()
    canonical_max_bytes: Annotated[
        int,
        about(
            "Larger values are compared by their bytes, in bytes.",
            minimum=1024,
            maximum=1_073_741_824,
        ),
    ] = 4_000_000
    redis_loss: Annotated[
        RedisLoss, about("While Redis is away: publish without asking it, or refuse (503).")
    ] = "publish"
    dedupe_ttl_s: Annotated[
        int | None,
        about(
            "How long an event id is remembered, so that a repeat is answered `duplicate`.",
            minimum=1,
            maximum=2_592_000,
            example="86400",
        ),
    ] = None
    max_bytes: Annotated[
        int | None,
        about(
            "The largest value taken, in bytes; the topic's own limit in Kafka holds as well.",
            minimum=1,
            maximum=1_073_741_824,
            example="1048576",
        ),
    ] = None
    oversize: Annotated[
        tuple[Strategy, ...],
        about(
            "What is tried, in this order, with an event that is too large; behind the last "
            "stands reject."
        ),
    ] = ("reject",)
    split: Annotated[
        SplitRule | None,
        about(
            "For the strategy split: JSON Pointers of an array and of the key within each element.",
            example='{pointer = "/options", key = "/id"}',
        ),
    ] = None
    timestamp: Annotated[
        Timestamp, about("The record's timestamp: arrival at the gateway, or what the event says.")
    ] = "arrival"
    compat_json_keys: Annotated[
        CompatJsonKeys,
        about(
            "JSON keys of Confluent's REST: their JSON text, as there (quoted), or the text itself."
        ),
    ] = "quoted"
    compat_timestamps: Annotated[
        CompatTimestamps,
        about(
            "Timestamps of records over Confluent's REST: taken, as there, or a record that has "
            "one is refused (422)."
        ),
    ] = "take"
    cloudevents: Annotated[
        CloudEvents,
        about("How CloudEvents are written: headers and the data's bytes, or the whole JSON."),
    ] = "binary"
    schema_file: Annotated[
        str | None,
        about(
            "The path of a JSON Schema (2020-12); events that it does not take are refused (422).",
            example='"schemas/deals.json"',
        ),
    ] = None
    schema: Schema | None = field(default=None, repr=False)
    spool: Annotated[
        bool,
        about(
            "Whether events go to disk ([spool] path) and are answered `spooled` (202) when Kafka "
            "does not take them in time."
        ),
    ] = False
    spool_after_ms: Annotated[
        int,
        about(
            "How long Kafka may take before an event is spooled (unless it is known to be away).",
            minimum=50,
            maximum=_HOUR_MS,
        ),
    ] = 2_000
    facts: Annotated[
        bool,
        about(
            "Whether events that get no record of their own (unchanged, superseded, duplicate, "
            "rejected) are told in the topic headgate.facts, for the skew audit."
        ),
    ] = False
    facts_one_in: Annotated[
        int,
        about(
            "Tell of one in so many of them, chosen by chance; the audit scales its counts up.",
            minimum=1,
            maximum=1_000_000,
        ),
    ] = 1
    coalesce_quiet_ms: Annotated[
        int | None,
        about(
            "State topics: hold a key's events until none came for so long, and publish the last; "
            "they are answered `held`, and `headgate init` must have made the held topic.",
            minimum=1,
            maximum=_HOUR_MS,
            example="2000",
        ),
    ] = None
    coalesce_max_delay_ms: Annotated[
        int | None,
        about(
            "How long a key is held at most, however often it changes.",
            minimum=1,
            maximum=_HOUR_MS,
            derived="5 x coalesce_quiet_ms",
            example="10000",
        ),
    ] = None
    coalesce_leading: Annotated[
        bool, about("Publish the first event of a quiet key at once, and hold those behind it.")
    ] = False
    coalesce_burst_max_ms: Annotated[
        int,
        about(
            "How long a burst (`Headgate-Burst`) may hold a key that nobody commits.",
            minimum=1,
            maximum=_DAY_MS,
        ),
    ] = 600_000
    coalesce_max_keys: Annotated[
        int,
        about(
            "Keys held at most, for each partition of the held topic; beyond it the oldest are "
            "published early.",
            minimum=1,
            maximum=10_000_000,
        ),
    ] = 20_000
    coalesce_max_bytes: Annotated[
        int,
        about(
            "Memory of held events at most, in bytes, for each partition of the held topic; beyond "
            "it the oldest are published early.",
            minimum=1024,
            maximum=17_179_869_184,
        ),
    ] = 33_554_432
    coalesce_partitions: Annotated[
        int,
        about(
            "Partitions that `headgate init` gives the held topic; they can never be changed.",
            minimum=1,
            maximum=1000,
        ),
    ] = 12

    @property
    def coalesces(self) -> bool:
        """Whether its events are held."""
        return self.coalesce_quiet_ms is not None


def key_rule(policy: TopicPolicy) -> bytes:
    """8 bytes over how the topic's events get their keys.

    While gateways have different ones, nothing is suppressed: the same thing has two keys.
    """
    return blake2b(repr((policy.key, policy.keyless)).encode(), digest_size=8).digest()


def fingerprint(policy: TopicPolicy) -> str:
    """16 hex digits over what decides whether two events of a topic are the same.

    The key of the topic's digests: contents that were compared by other rules equal none, so a
    change of the comparison starts from nothing, and one of limits or quotas does not. The same in
    every process and version of Python.
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
    """Finds a topic's policy: its exact name first, then the glob with the longest prefix.

    Globs never match internal topics. Raises ValueError when two patterns tie.
    """

    __slots__ = ("_exact", "_globs", "_prefixes", "_remembered", "policies")

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
        self._remembered: dict[str, TopicPolicy | None] = {}

    def match(self, topic: str) -> TopicPolicy | None:
        """The policy of this topic, or None when no pattern matches its name."""
        exact = self._exact.get(topic)
        if exact is not None:
            return exact
        if len(topic) > LONGEST_NAME:  # clients choose names freely, and these are remembered
            return None
        if topic not in self._remembered:
            if len(self._remembered) >= _REMEMBERED_TOPICS:
                self._remembered.clear()
            self._remembered[topic] = self._first_glob(topic)
        return self._remembered[topic]

    def _first_glob(self, topic: str) -> TopicPolicy | None:
        if topic.startswith(INTERNAL_PREFIXES):
            return None
        alike = (self._globs.get(topic[:size], ()) for size in self._prefixes)
        found = (policy for globs in alike for glob, policy in globs if glob.match(topic))
        return next(found, None)
