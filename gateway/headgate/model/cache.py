"""A cache of bounded size for names that clients choose."""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """A cache that is emptied when it is full, because clients could fill any other one.

    Args:
        limit: The largest number of entries.

    Attributes:
        get: Returns the value of a key, or None. It is the method of the dict itself, since most
            caches are asked once for each event.
    """

    __slots__ = ("_entries", "_limit", "get")

    def __init__(self, limit: int) -> None:
        self._entries: dict[Key, Value] = {}
        self._limit = limit
        self.get: Final[Callable[[Key], Value | None]] = self._entries.get

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: Key, value: Value) -> Value:
        """Add an entry, and return its value."""
        if len(self._entries) >= self._limit:
            self._entries.clear()
        self._entries[key] = value
        return value
