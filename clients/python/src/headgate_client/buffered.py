"""Options and helpers of both producers."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, get_args

from headgate_client.core.answer import counted
from headgate_client.core.encode import Part, check_topic, key_bytes
from headgate_client.core.lanes import Entry
from headgate_client.errors import InvalidEventError, InvalidOptionError
from headgate_client.events import CloudEvent, Event
from headgate_client.outcomes import Outcome
from headgate_client.settings import (
    Buffering,
    check_choice,
    check_function,
    check_type,
    refuse_unknown,
)

OrderingKey: TypeAlias = Callable[[str, Any], str | bytes | int | None]
WhenFull: TypeAlias = Literal["wait", "raise"]
LONGEST_WAIT_S = 3600.0  # of one wait: the platform takes no infinity


class ProducerOptions(TypedDict, total=False):
    """Options of `BufferedProducer` and `AsyncBufferedProducer`.

    Keys:
        buffering: Size of the buffer and of its requests.
        ordering_key: Function of topic and value that returns the key of events without `key`: a
            str, bytes, an int, a bool, or None. Without the function, these events of a topic are
            sent one request after another.
        when_full: "wait" for room in the buffer (the default), or "raise" BufferFullError.
    """

    buffering: Buffering
    ordering_key: OrderingKey
    when_full: WhenFull


DEFAULTS: ProducerOptions = {"buffering": Buffering(), "when_full": "wait"}


def check_client(client: object, expected: type, other: str) -> None:
    """Raise InvalidOptionError if a producer gets no client, or one of the other kind."""
    if not isinstance(client, expected):
        kind = type(client).__name__
        fix = f"{expected.__name__}(url)"
        hint = f" ({other})" if kind == other.split()[-1] else ""
        raise InvalidOptionError(f"client: use {fix}, not {kind}{hint}")


class ProducerConfig(NamedTuple):
    """The options with their defaults."""

    buffering: Buffering
    ordering_key: OrderingKey | None
    waits: bool

    @classmethod
    def of(cls, owner: str, options: ProducerOptions) -> "ProducerConfig":
        """Check the options. Raises InvalidOptionError."""
        refuse_unknown(owner, options, tuple(ProducerOptions.__annotations__))
        options = {**DEFAULTS, **options}
        buffering, when_full = options["buffering"], options["when_full"]
        check_type("buffering", buffering, Buffering)
        check_choice("when_full", when_full, get_args(WhenFull))
        ordering_key = options.get("ordering_key")
        if ordering_key is not None:
            check_function("ordering_key", ordering_key, " of topic and value")
        return cls(buffering, ordering_key, when_full == "wait")

    def lane(self, topic: str, event: Event | CloudEvent, part: Part) -> bytes | None:
        """Return the ordering key of an event, None if it is unknown. Raises InvalidEventError."""
        check_topic(topic)
        if part.lane is not None or self.ordering_key is None:
            return part.lane
        value = event.value if isinstance(event, Event) else event.data
        try:
            key = self.ordering_key(topic, value)
        except Exception as error:
            raise InvalidEventError(
                f"ordering_key: the function raised {error!r}; return None if there is no key"
            ) from error
        return _lane(key)


def _lane(key: object) -> bytes | None:
    """Return the bytes that the gateway's key rule makes of a value. Raises InvalidEventError."""
    if key is None:
        return None
    if isinstance(key, int):  # True is an int
        return str(key).lower().encode()
    if not isinstance(key, (str, bytes)) or not key:
        kind = f"an empty {type(key).__name__}" if key in ("", b"") else type(key).__name__
        raise InvalidEventError(
            f"ordering_key: the function returned {kind}; return a str, bytes or an int, or None"
        )
    return key_bytes(key, "ordering_key")


def full_text(events: int, limit: str) -> str:
    """Return the text of BufferFullError. limit: the limit that is reached."""
    wait = "waits" if events == 1 else "wait"
    return f"{counted(events, 'event')} {wait} ({limit} of Buffering); the event was not taken"


def resolve(ended: Iterable[tuple[Entry, Outcome]]) -> None:
    """Give each future its outcome, also if a callback of another one raises."""
    raised: BaseException | None = None
    for entry, outcome in ended:
        try:
            entry.done(outcome)
        except BaseException as error:  # of a callback, or of a loop that is closed
            raised = error
    if raised is not None and not isinstance(raised, Exception):
        raise raised  # such as KeyboardInterrupt
