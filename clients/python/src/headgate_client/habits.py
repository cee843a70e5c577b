"""Methods that other Kafka clients have: an AttributeError that names the method to use."""

from collections.abc import Callable, Mapping
from typing import NoReturn, TypeVar

_Kind = TypeVar("_Kind", bound=type)

_BY_ITSELF = "it is not needed: the client connects when it sends"
_BUFFERED = "send() waits for the outcome; to send in the background use BufferedProducer(client)"
_TRANSACTIONS = "there are no transactions; see the documentation, Move to Headgate"
_COMMON = {
    "connect": _BY_ITSELF,
    "start": _BY_ITSELF,
    "disconnect": "use close()",
    "stop": "use close()",
    "produce": "use send(topic, value, key=...)",
    "init_transactions": _TRANSACTIONS,
    "begin_transaction": _TRANSACTIONS,
}
CLIENT_HABITS = {
    **_COMMON,
    "send_and_wait": "use send(): it waits for the outcome",
    "poll": _BUFFERED,
    "flush": _BUFFERED,
}
PRODUCER_HABITS = {
    **_COMMON,
    "send_and_wait": "use send(...), and wait for its future; or send() of the client",
    "poll": "it is not needed: callbacks of the futures are called without it",
    "send_batch": "use send() for each event; or send_batch() of the client",
}


class _Habit:
    """A method that does not exist: neither for `hasattr` nor for a type checker."""

    def __init__(self, name: str, fix: str) -> None:
        self._name, self._fix = name, fix

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no {self._name}(): {self._fix}")


def name_habits(habits: Mapping[str, str]) -> Callable[[_Kind], _Kind]:
    """Return a decorator of a class whose missing methods name what to use instead.

    Args:
        habits: The method to use, by name of the missing one.
    """

    def add(kind: _Kind) -> _Kind:
        for name, fix in habits.items():
            setattr(kind, name, _Habit(name, fix))
        return kind

    return add
