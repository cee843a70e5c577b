# Not compiled: it has a dataclass.
"""Options of suppression."""

from dataclasses import dataclass

from headgate.suppression.rules import SuppressionSpans


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressOptions:
    """Options of suppression.

    Attributes:
        token_ttl_ms: Life of a token for a publish with an unknown result, in milliseconds. It is
            2 x delivery_timeout_ms, so that a record in its lane has enough time for its delivery.
        quarantine_ms: See `suppression.rules.SuppressionSpans`.
        max_suppress_age_ms: See `suppression.rules.SuppressionSpans`.
        timeout_ms: Longest wait of an event for Redis, including the queue, before it bypasses
            Redis; also the timeout of a call. In milliseconds.
        linger_ms: Longest wait of a call while events keep arriving, and of settlements for a call
            with events, in milliseconds.
        max_keys_per_call: Most keys of a call.
        max_operations_per_call: Most operations of a call. Both limits bound its work for any mix
            of keys, because Redis runs nothing else meanwhile (worst case in tests/RESULTS.md).
        unreserved_max: Most settlements of a namespace while Redis is away; beyond that the whole
            namespace is dropped.
        unknown_max: Most publishes with an unknown result that are registered again after Redis
            has lost its state.
        fences_by_writing: A record with an unknown result may land until Kafka acknowledges a later
            record of its partition (from an idempotent producer's successor). If false, it may land
            only for token_ttl_ms (the end of a transaction).
        touches_opened: Send heartbeats for every compared topic, even without events. So each of
            several servers has the topic's key rule, also if other gateways use another server.
        look_s: Time between two checks for evictions, in seconds.
    """

    token_ttl_ms: float = 240_000.0
    quarantine_ms: float = 240_000.0
    max_suppress_age_ms: float = 3_600_000.0
    timeout_ms: float = 100.0
    linger_ms: float = 2.0
    max_keys_per_call: int = 200
    max_operations_per_call: int = 400
    unreserved_max: int = 100_000
    unknown_max: int = 100_000
    fences_by_writing: bool = True
    touches_opened: bool = False
    look_s: float = 10.0

    @property
    def spans(self) -> SuppressionSpans:
        """Return the spans of the script's calls."""
        return SuppressionSpans(self.token_ttl_ms, self.quarantine_ms, self.max_suppress_age_ms)

    @property
    def tick_s(self) -> float:
        """Return the interval between checks for renewals and heartbeats, in seconds."""
        return max(0.01, min(self.quarantine_ms / 6, self.token_ttl_ms / 16, 1000.0) / 1000)
