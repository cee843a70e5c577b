"""Options of retries, request sizes and buffers."""

import functools
import inspect
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Literal, ParamSpec, Self, TypeAlias, TypeVar, get_args

from headgate_client.errors import InvalidOptionError

Overtaken: TypeAlias = Literal["send", "leave_out"]
Compression: TypeAlias = Literal["gzip", "zstd"]
_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")

# The gateway remembers an Idempotency-Key for a day (`redis.idempotency_ttl_ms`). A later retry may
# write the event twice.
MAX_PATIENCE_S = 23 * 3600.0


# Names that programs try, with the place where each belongs. Other Kafka clients have some of them.
_PLACES = {
    **dict.fromkeys(
        ("patience_s", "first_wait_s", "longest_wait_s", "repeat_unknown", "overtaken"),
        "Use Client(retry=Retry({}=...)).",
    ),
    **dict.fromkeys(
        ("linger_s", "in_flight", "one_per_key"),
        "Use BufferedProducer(buffering=Buffering({}=...)).",
    ),
    **dict.fromkeys(
        ("max_events", "max_bytes"), "Use Client(limits=Limits({0}=...)) or Buffering({0}=...)."
    ),
    **dict.fromkeys(("ordering_key", "when_full", "buffering"), "Use BufferedProducer({}=...)."),
    **dict.fromkeys(
        ("linger_ms", "linger"), "Use BufferedProducer(buffering=Buffering(linger_s=...))."
    ),
    **dict.fromkeys(
        ("bootstrap_servers", "brokers", "base_url"),
        "The first argument is the URL of the gateway: Client('http://127.0.0.1:8080').",
    ),
    "idempotency_key": (
        "Use Client.send: a producer gives each request a key of its own. "
        "The id of an event is id=...."
    ),
    "request_headers": "Use Client(request_headers=...): a request of a producer has many events.",
    **dict.fromkeys(
        ("on_delivery", "callback"), "Use BufferedProducer.send(...).add_done_callback(function)."
    ),
    "max_block_ms": "Use BufferedProducer.send(..., timeout_s=...).",
    "buffer_memory": "Use BufferedProducer(buffering=Buffering(max_bytes=...)).",
    "batch_size": "Use Client(limits=Limits(max_bytes=...)).",
    "compression_type": "Use Client(compression=...).",
    "request_timeout_ms": "Use Client(timeout_s=...).",
    "delivery_timeout_ms": "Use Client(retry=Retry(patience_s=...)).",
    "retry_backoff_ms": "Use Client(retry=Retry(first_wait_s=...)).",
    "max_in_flight_requests_per_connection": (
        "Use BufferedProducer(buffering=Buffering(in_flight=...))."
    ),
    **dict.fromkeys(
        ("security_protocol", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password"),
        "Use token=...: the gateway has the credentials of Kafka.",
    ),
    "ssl_context": "Use tls=....",
    "partitioner": "The gateway chooses the partition by the key: use key=....",
    "transactional_id": "There are no transactions.",
    "acks": "The gateway always waits for all in-sync replicas.",
    "partition": "The gateway chooses it by the key: use key=....",
    "value_serializer": "Use Client(dumps=...).",
    "enable_idempotence": "It is on: see Client(idempotency=...).",
    "retries": "Use Client(retry=Retry(patience_s=...)).",
    "timestamp_ms": "Use timestamp=....",
    "timeout": "Use timeout_s=....",
    "key_serializer": "Give the key as a str or bytes.",
    "client_id": "Use producer=....",
    "verify": "Use tls=ssl.create_default_context(cafile=...).",
}


def refuse_unknown(owner: str, given: Iterable[str], allowed: Collection[str]) -> None:
    """Raise InvalidOptionError for the first option that does not exist."""
    for name in given:
        if name not in allowed:
            raise InvalidOptionError(
                f"{owner}: unknown option {name!r}.{_hint(name, allowed)} "
                f"The options are {', '.join(allowed)}."
            )


def _hint(name: str, allowed: Collection[str]) -> str:
    if name not in _PLACES:
        return did_you_mean(name, allowed)
    return did_you_mean(name, allowed, 0.75) or f" {_PLACES[name].format(name)}"


def did_you_mean(name: str, allowed: Collection[str], least: float = 0.6) -> str:
    """Return a hint at the most similar name, empty if none is similar enough."""
    similar = get_close_matches(name, allowed, 1, least)
    similar = similar or get_close_matches(name.lower(), allowed, 1, least)
    return f" Did you mean {similar[0]!r}?" if similar else ""


def explain_arguments(
    example: str,
) -> Callable[[Callable[_Given, _Returned]], Callable[_Given, _Returned]]:
    """Let the TypeError of a call with wrong arguments name the fix.

    Args:
        example: An argument that has to be named.
    """
    return functools.partial(_explained, example)


def _explained(example: str, call: Callable[_Given, _Returned]) -> Callable[_Given, _Returned]:
    signature = inspect.signature(call)
    allowed = [name for name in signature.parameters if name != "self"]
    positional = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and name != "self"
    ]

    @functools.wraps(call)
    def explained(*args: _Given.args, **kwargs: _Given.kwargs) -> _Returned:
        try:
            return call(*args, **kwargs)
        except TypeError:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                name = next((name for name in kwargs if name not in allowed), "")
                fix = _hint(name, allowed) if name else ""
                if len(args) - 1 > len(positional):
                    fix = f" Name the arguments after {positional[-1]}, such as {example}."
                raise TypeError(f"{call.__qualname__}: {error}.{fix}") from None
            raise

    return explained


class CheckedOptions:
    """Base of dataclasses whose unknown arguments raise InvalidOptionError."""

    __slots__ = ()

    def __new__(cls, *_: object, **given: object) -> Self:
        """Refuse unknown options, before the dataclass does so without a list."""
        refuse_unknown(cls.__name__, given, [each.name for each in fields(cls)])  # type: ignore[arg-type]
        return super().__new__(cls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(CheckedOptions):
    """Rules for sending an event again, and for giving up.

    Attributes:
        patience_s: Total time for an event, in seconds. It begins with the call of `send`. After
            it, the event is not sent again.
        first_wait_s: Base of the random wait. The wait before attempt n + 1 is at most
            `first_wait_s * 2**n`, after the time that Retry-After asks for.
        longest_wait_s: Upper limit of the random wait, `first_wait_s` or more.
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
        check_number("patience_s", self.patience_s, 0, MAX_PATIENCE_S)
        check_number("first_wait_s", self.first_wait_s)
        check_number("longest_wait_s", self.longest_wait_s)
        if self.longest_wait_s < self.first_wait_s:
            raise InvalidOptionError(
                f"longest_wait_s: use first_wait_s ({self.first_wait_s}) or more, "
                f"not {self.longest_wait_s}"
            )
        check_bool("repeat_unknown", self.repeat_unknown)
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
class Limits(CheckedOptions):
    """Size of one request. The gateway has limits of its own (`http.batch_max_events`, -bytes).

    Attributes:
        max_events: Events in one request.
        max_bytes: Bytes of one request before compression. A larger event is sent alone.
    """

    max_events: int = 500
    max_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        """Refuse values that are out of range."""
        check_count("max_events", self.max_events)
        check_count("max_bytes", self.max_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffering(CheckedOptions):
    """Buffer of a producer.

    Attributes:
        linger_s: Time that an event waits for others, to be sent in one request.
        max_events: Events in the buffer that have no outcome yet.
        max_bytes: Approximate memory of these events: the bytes of each, and 3,200 more.
        in_flight: Concurrent requests.
        one_per_key: Never put two events of a key into one request. No event can then be overtaken,
            and each event of a key costs a round trip.
    """

    linger_s: float = 0.02
    max_events: int = 16_000
    max_bytes: int = 64_000_000
    in_flight: int = 4
    one_per_key: bool = False

    def __post_init__(self) -> None:
        """Refuse values that are out of range."""
        check_number("linger_s", self.linger_s)
        check_count("max_events", self.max_events)
        check_count("max_bytes", self.max_bytes)
        check_count("in_flight", self.in_flight)
        check_bool("one_per_key", self.one_per_key)


def check_choice(name: str, value: object, choices: Collection[object]) -> None:
    """Raise InvalidOptionError if the value is not one of the choices."""
    if value not in choices:
        allowed = " or ".join(repr(each) for each in choices)
        raise InvalidOptionError(f"{name}: use {allowed}, not {value!r}")


def check_type(name: str, value: object, expected: type, fix: str = "") -> None:
    """Raise InvalidOptionError if the value has another type. fix: the type to use."""
    if not isinstance(value, expected):
        raise InvalidOptionError(f"{name}: use {fix or expected.__name__ + '(...)'}, {_not(value)}")


def check_function(name: str, value: object, fix: str) -> None:
    """Raise InvalidOptionError if the value cannot be called."""
    if not callable(value):
        raise InvalidOptionError(f"{name}: use a function{fix}, {_not(value)}")


def check_bool(name: str, value: object) -> None:
    """Raise InvalidOptionError if the value is not True or False."""
    if not isinstance(value, bool):
        raise InvalidOptionError(f"{name}: use True or False, {_not(value)}")


def check_number(name: str, value: object, least: float = 0, most: float | None = None) -> None:
    """Raise InvalidOptionError if the value is not a number within these bounds."""
    bounds = f"{least} or more" if most is None else f"{least} to {most:.0f}"
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise InvalidOptionError(f"{name}: use a number, {bounds}, {_not(value)}")
    if not least <= value <= (float("inf") if most is None else most):
        raise InvalidOptionError(f"{name}: use {bounds}, not {value}")


def check_wait(timeout_s: object) -> None:
    """Raise InvalidOptionError if the time limit of a call is not a number or None."""
    if timeout_s is not None and (
        not isinstance(timeout_s, (int, float)) or isinstance(timeout_s, bool)
    ):
        raise InvalidOptionError(f"timeout_s: use a number of seconds or None, {_not(timeout_s)}")


def check_count(name: str, value: object) -> None:
    """Raise InvalidOptionError if the value is not a whole number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidOptionError(f"{name}: use a whole number, 1 or more, {_not(value)}")
    check_number(name, value, 1)


def _not(value: object) -> str:
    """Return the type that was given, and the value if it is a number in quotes."""
    if isinstance(value, str) and value.replace(".", "", 1).isdigit():
        return f"not the str {value!r}: leave out the quotes"
    return f"not {type(value).__name__}"
