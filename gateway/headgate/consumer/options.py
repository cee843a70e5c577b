"""Options and counters of a consumer."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields
from typing import Literal, Self

from headgate.model.text import closest

# What to use for names that other Kafka clients have, or that belong to the other class.
_PLACES = {
    "group_id": "Use Consumer(group=...).",
    **dict.fromkeys(("bootstrap_servers", "brokers"), "Use Consumer(bootstrap=...)."),
    **dict.fromkeys(
        (
            "security_protocol", "ssl_context", "ssl_cafile", "sasl_mechanism",
            "sasl_plain_username", "sasl_plain_password",
        ),
        "Use Consumer(bootstrap=ClusterOptions(...)), from headgate.kafka.options.",
    ),
    **dict.fromkeys(("topic", "topics"), "Topics come first: Consumer('orders', 'deals', ...)."),
    **dict.fromkeys(("group", "bootstrap", "pauses", "offsets"), "It is an argument of Consumer."),
    "enable_auto_commit": "Leave it out: only finished events are committed.",
    "auto_commit_interval_ms": "Use ConsumerOptions(commit_interval_s=...).",
    "max_poll_interval_ms": "Leave it out: a slow handler does not cost the membership.",
    "max_poll_records": "Use ConsumerOptions(concurrency=..., prefetch=...).",
    "heartbeat_interval_ms": "It is a third of ConsumerOptions(session_timeout_ms=...).",
    "isolation_level": "Leave it out: it is always read_committed.",
    "value_deserializer": "Leave it out: event.value is bytes or None.",
    "key_deserializer": "Leave it out: event.key is bytes or None.",
}  # fmt: skip


def refuse_unknown(owner: str, given: Iterable[str], allowed: Collection[str]) -> None:
    """Raise TypeError with the fix for the first argument that does not exist."""
    options = [each.name for each in fields(ConsumerOptions)]
    for name in (name for name in given if name not in allowed):
        place = f"Use options=ConsumerOptions({name}=...)." if name in options else ""
        hint = place or _PLACES.get(name) or closest(name, allowed)
        hints = f"{hint} The arguments are {', '.join(allowed)}.".strip()
        raise TypeError(f"{owner}: there is no argument {name!r}. {hints}")


@dataclass(frozen=True, slots=True)
class Retries:
    """Handling of events whose handler failed.

    The values of `then`, for an event whose last attempt failed:
        `dead-letter`: it is written to `dead_letter`, with the reason in headers, and is done; if
            that topic refuses it, like `stop`.
        `skip`: it is done, and counted.
        `stop`: the consumer ends with `GaveUpError`, and its offset is not committed.
        `hold`: it stays open. Its partition's committed offset stays before it, for ever.

    Attributes:
        attempts: Maximum number of attempts.
        first_s: Wait before the second attempt, in seconds; later waits double. Later events of the
            key wait, too.
        max_s: Longest wait, in seconds.
        then: Handling after the last attempt.
        dead_letter: The dead-letter topic.
    """

    attempts: int = 5
    first_s: float = 0.5
    max_s: float = 30.0
    then: Literal["dead-letter", "skip", "stop", "hold"] = "stop"
    dead_letter: str | None = None

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError("attempts is at least 1")
        if (self.then == "dead-letter") != (self.dead_letter is not None):
            raise ValueError('then = "dead-letter" needs dead_letter, the topic, and nothing else')

    def wait_s(self, attempt: int) -> float:
        """Return the wait after an attempt, in seconds; attempts count from 1."""
        return float(min(self.max_s, self.first_s * 2 ** min(attempt - 1, 30)))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions:
    """The options of a member of a group.

    Attributes:
        session_timeout_ms: Time for which a dead member keeps its partitions, in milliseconds.
        max_partition_fetch_bytes: Maximum size of one partition in one response of a broker.
        auto_offset_reset: Start of a partition without a commit of the group.
    """

    session_timeout_ms: int = 10_000
    max_partition_fetch_bytes: int = 1_048_576
    client_id: str = "headgate"
    auto_offset_reset: Literal["earliest", "latest", "none"] = "earliest"

    @property
    def heartbeat_ms(self) -> int:
        """Return the heartbeat interval, in ms: a third of a session."""
        return max(100, self.session_timeout_ms // 3)


@dataclass(frozen=True, slots=True)
class ConsumerOptions(MemberOptions):
    """The options of a consumer, beside those of its membership.

    Attributes:
        concurrency: Maximum number of events that are handed out and not done.
        prefetch: Maximum number of records of one partition that are read ahead.
        commit_interval_s: Time between commits while there is progress, in seconds.
        drain_s: Time for which a rebalance, and the end of the consumer, wait for events that are
            handed out, in seconds. Unfinished events are redelivered to the partition's next owner.
        assemble: Whether to join the chunks of oversize events (`Assembler`).
        retries: Handling of failed events.
    """

    concurrency: int = 64
    prefetch: int = 1_000
    commit_interval_s: float = 1.0
    drain_s: float = 10.0
    client_id: str = field(default="headgate-consumer", kw_only=True)
    assemble: bool = True
    retries: Retries = Retries()

    def __new__(cls, *_: object, **given: object) -> Self:
        """Refuse an unknown option, before the dataclass does so without the fix."""
        refuse_unknown(cls.__name__, given, [each.name for each in fields(cls)])
        return object.__new__(cls)

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.prefetch < 1:
            raise ValueError("concurrency and prefetch are at least 1")
        if self.commit_interval_s <= 0 or self.drain_s < 0:
            raise ValueError("commit_interval_s is over 0, drain_s not below 0")


class GaveUpError(Exception):
    """The last attempt of an event failed, and the consumer ends.

    Either `then` is `stop`, or the dead-letter topic refused the event.
    """


@dataclass(slots=True)
class Counts:
    """The work of a consumer since its creation.

    The first three differ by the events in flight; if a consumer is stuck, the one that stands
    still shows the cause.

    Attributes:
        delivered: Records received from Kafka.
        processed: Events that are done.
        committed: Offsets by which the group's position advanced.
        stale_done: Ignored calls of `done` or `failed` after the end of the term of ownership.
        stale_commits: Commits dropped because the term ended before they were sent.
        regressions_prevented: Commits skipped because the group already has a later offset.
        revokes: Rebalances.
        drain_s: Seconds for which rebalances waited for events handed out.
    """

    delivered: int = 0
    processed: int = 0
    committed: int = 0
    failed: int = 0
    skipped: int = 0
    dead_letters: int = 0
    stale_done: int = 0
    stale_commits: int = 0
    regressions_prevented: int = 0
    commit_errors: int = 0
    revokes: int = 0
    drain_s: float = 0.0
