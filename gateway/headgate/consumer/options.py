"""Options and counters of a consumer."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Retries:
    """Handling of events whose handler failed.

    attempts: how often it is handed out at most.  first_s, max_s: the wait before the second
    attempt, doubled each time up to `max_s`. Later events of its key wait behind it.
    then: with the last attempt failed,
        `dead-letter`: it is written to `dead_letter`, with the reason in headers, and is done;
            where that topic does not take it, as `stop`;
        `skip`: it is done, and counted;
        `stop`: the consumer ends with `GaveUpError`, and its offset is not committed;
        `hold`: it stays open. Its partition's committed offset stays before it, for ever.
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


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The options of a consumer.

    concurrency: events handed out and not done, at most.
    prefetch: records of one partition that are read ahead, at most.
    commit_interval_s: between commits while there is progress.
    drain_s: how long a rebalance, and the end of the consumer, wait for events that are handed out.
    What is not done by then is redelivered to the partition's next owner.
    session_timeout_ms: how long a dead member keeps its partitions.
    max_partition_fetch_bytes: of one partition in one answer of a broker.
    assemble: put the chunks of oversized events together (`Assembler`).
    """

    concurrency: int = 64
    prefetch: int = 1_000
    commit_interval_s: float = 1.0
    drain_s: float = 10.0
    session_timeout_ms: int = 10_000
    max_partition_fetch_bytes: int = 1_048_576
    client_id: str = "headgate-consumer"
    auto_offset_reset: Literal["earliest", "latest", "none"] = "earliest"
    assemble: bool = True
    retries: Retries = Retries()

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.prefetch < 1:
            raise ValueError("concurrency and prefetch are at least 1")
        if self.commit_interval_s <= 0 or self.drain_s < 0:
            raise ValueError("commit_interval_s is over 0, drain_s not below 0")


class GaveUpError(Exception):
    """An event failed as often as `Retries.attempts` allows, and `then` is `stop`, or its
    dead-letter topic did not take it.
    """


@dataclass(slots=True)
class Counts:
    """The work of a consumer since its creation.

    delivered: records that Kafka handed over.  processed: events that are done.  committed:
    offsets by which the group's position went forward.  The three differ by what is in flight; a
    consumer that is stuck shows in which of them stands still.
    stale_done: `done` or `failed` for a term of ownership that had ended; ignored.
    stale_commits: commits dropped because the term ended before they were sent.
    regressions_prevented: commits left out because the group has a later offset already.
    revokes, drain_s: rebalances, and the seconds that they waited for events handed out.
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
