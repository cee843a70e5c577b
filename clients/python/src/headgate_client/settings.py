"""Options of retries, request sizes and buffers."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Literal, Self, TypeAlias, get_args

from headgate_client.errors import InvalidOptionError

Overtaken: TypeAlias = Literal["send", "leave_out"]
Compression: TypeAlias = Literal["gzip", "zstd"]

# The gateway remembers an Idempotency-Key for a day (`redis.idempotency_ttl_ms`). A later retry may
# write the event twice.
MAX_PATIENCE_S = 23 * 3600.0


def refuse_unknown(owner: str, given: Iterable[str], allowed: Collection[str]) -> None:
    """Raise InvalidOptionError for the first option that does not exist."""
    for name in given:
        if name not in allowed:
            similar = get_close_matches(name, allowed, 1)
            hint = f" Did you mean {similar[0]!r}?" if similar else ""
            raise InvalidOptionError(
                f"{owner}: unknown option {name!r}.{hint} The options are {', '.join(allowed)}."
            )


class _Options:
    __slots__ = ()

    def __new__(cls, *_: object, **given: object) -> Self:
        """Refuse unknown options, before the dataclass does so without a list."""
        refuse_unknown(cls.__name__, given, [each.name for each in fields(cls)])  # type: ignore[arg-type]
        return super().__new__(cls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(_Options):
    """Rules for sending an event again, and for giving up.

    Attributes:
        patience_s: Total time for an event, in seconds. It begins with the call of `send`. After
            it, the event is not sent again.
        first_wait_s: Base of the random wait. The wait before attempt n + 1 is at most
            `first_wait_s * 2**n`, after the time that Retry-After asks for.
        longest_wait_s: Upper limit of the random wait.
        repeat_unknown: False does not send an event again if it may be written. Use it only if the
            gateway has no Redis and a duplicate does harm.
        overtaken: Action for a failed event after a later event of its key was written. "send"
            writes it behind. "leave_out", for states (only the newest counts, and duplicates do no
            harm), drops it with the reason `overtaken`.
    """

    patience_s: float = 120.0
    first_wait_s: float = 0.2
    longest_wait_s: float = 30.0
    repeat_unknown: bool = True
    overtaken: Overtaken = "send"

    def __post_init__(self) -> None:
        """Refuse values that are out of range."""
        if not 0 <= self.patience_s <= MAX_PATIENCE_S:
            raise InvalidOptionError(f"patience_s: use 0 to {MAX_PATIENCE_S:.0f} seconds")
        _check_minimum(self, {"first_wait_s": 0, "longest_wait_s": 0})
        check_choice("overtaken", self.overtaken, get_args(Overtaken))

    def wait_s(self, attempt: int, retry_after_s: float, share: float) -> float:
        """Return the wait after an attempt, in seconds.

        Args:
            attempt: Number of the attempt that failed; the first is 1.
            retry_after_s: Wait that the gateway asked for.
            share: Random number from 0 to 1.
        """
        doubled = self.first_wait_s * 2.0 ** min(attempt, 60)
        return retry_after_s + share * min(self.longest_wait_s, doubled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(_Options):
    """Size of one request. The gateway has limits of its own (`http.batch_max_events`, -bytes).

    Attributes:
        max_events: Events in one request.
        max_bytes: Bytes of one request before compression. A larger event is sent alone.
    """

    max_events: int = 500
    max_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        """Refuse values that are out of range."""
        _check_minimum(self, {"max_events": 1, "max_bytes": 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffering(_Options):
    """Buffer of a producer.

    Attributes:
        linger_s: Time that an event waits for others, to be sent in one request.
        max_events: Events in the buffer that have no outcome yet.
        max_bytes: Memory of these events, about.
        in_flight: Concurrent requests.
        one_per_key: Never put two events of a key into one request. No event can then be overtaken,
            and each event of a key costs a round trip.
    """

    linger_s: float = 0.02
    max_events: int = 50_000
    max_bytes: int = 64_000_000
    in_flight: int = 4
    one_per_key: bool = False

    def __post_init__(self) -> None:
        """Refuse values that are out of range."""
        _check_minimum(self, {"linger_s": 0, "max_events": 1, "max_bytes": 1, "in_flight": 1})


def check_choice(name: str, value: object, choices: Collection[object]) -> None:
    """Raise InvalidOptionError if the value is not one of the choices."""
    if value not in choices:
        allowed = " or ".join(repr(each) for each in choices)
        raise InvalidOptionError(f"{name}: use {allowed}, not {value!r}")


def check_type(name: str, value: object, expected: type) -> None:
    """Raise InvalidOptionError if the value has another type."""
    if not isinstance(value, expected):
        kind = type(value).__name__
        raise InvalidOptionError(f"{name}: use {expected.__name__}(...), not {kind}")


def _check_minimum(options: Retry | Limits | Buffering, minimum: Mapping[str, float]) -> None:
    for name, least in minimum.items():
        if not getattr(options, name) >= least:
            raise InvalidOptionError(f"{name}: use {least} or more")
