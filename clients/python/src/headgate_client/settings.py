"""How patient a client is, and how much a producer keeps."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from headgate_client.errors import InvalidEventError

Overtaken: TypeAlias = Literal["send", "leave_out"]
Compression: TypeAlias = Literal["gzip", "zstd"]

# The gateway remembers an Idempotency-Key for a day (`redis.idempotency_ttl_ms`): who repeats later
# may write twice.
LONGEST_PATIENCE_S = 23 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When an event is sent again, and when that ends.

    patience_s: after this time nothing is tried again. It counts from the call, in a producer from
    when the event was taken.  first_wait_s, longest_wait_s: before attempt n + 1 there is a random
    wait of up to `first_wait_s * 2**n` and `longest_wait_s`, behind what Retry-After asks for.
    repeat_unknown: False leaves alone what may be written already; right only where the gateway
    has no Redis and a repeat does harm.  overtaken: what becomes of a failed event when a later
    one of its key has got through: "send" writes it behind that one, "leave_out" ends it as
    `overtaken` (right for states, of which the newest counts, and a repeat does no harm).
    """

    patience_s: float = 120.0
    first_wait_s: float = 0.2
    longest_wait_s: float = 30.0
    repeat_unknown: bool = True
    overtaken: Overtaken = "send"

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not 0 <= self.patience_s <= LONGEST_PATIENCE_S:
            raise InvalidEventError(f"patience_s: 0 to {LONGEST_PATIENCE_S:.0f} seconds")
        _check_positive(self, {"first_wait_s": 0, "longest_wait_s": 0})

    def wait_s(self, attempt: int, retry_after_s: float, share: float) -> float:
        """Return how long to wait behind attempt 1, 2, ...  share: random, 0 to 1."""
        doubled = self.first_wait_s * 2.0 ** min(attempt, 60)
        return retry_after_s + share * min(self.longest_wait_s, doubled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest request. The gateway's own limits are `http.batch_max_events` and -bytes.

    max_events, max_bytes: of one request before compression; a larger event goes alone.
    """

    max_events: int = 500
    max_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        _check_positive(self, {"max_events": 1, "max_bytes": 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffering:
    """What a producer keeps, and for how long.

    linger_s: how long an event waits for others to go with.  max_events, max_bytes: of all events
    that have not ended; there is no room beyond.  in_flight: requests at the same time.
    one_per_key: never two events of a key in one request, so that none can be overtaken; each
    event of a key then costs a round trip.
    """

    linger_s: float = 0.02
    max_events: int = 50_000
    max_bytes: int = 64_000_000
    in_flight: int = 4
    one_per_key: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        _check_positive(self, {"linger_s": 0, "max_events": 1, "max_bytes": 1, "in_flight": 1})


def _check_positive(options: Retry | Limits | Buffering, least: Mapping[str, float]) -> None:
    for option in fields(options):
        if option.name in least and not getattr(options, option.name) >= least[option.name]:
            raise InvalidEventError(f"{option.name}: {least[option.name]} or more")
