"""An event as a consumer hands it out."""

from collections.abc import Sequence
from typing import Any, Protocol


class Origin(Protocol):
    """The partition, in one term of ownership, that an event came from."""

    def done(self, received: "Received") -> None: ...

    def failed(self, received: "Received", error: BaseException | str) -> None: ...


class Received:
    """One event. Call `done` or `failed` exactly once; a second call is without effect.

    offset: of its record, of its last one if it was written in chunks.  timestamp: ms since 1970.
    attempt: 1 the first time it is handed out here.
    """

    __slots__ = (
        "_is_open",
        "_origin",
        "attempt",
        "headers",
        "key",
        "offset",
        "partition",
        "timestamp",
        "topic",
        "value",
    )

    def __init__(self, origin: Origin, event: Any, headers: Sequence[tuple[str, bytes | None]]):
        self._origin = origin
        self._is_open = False
        self.topic: str = event.topic
        self.partition: int = event.partition
        self.offset: int = event.offset
        self.key: bytes | None = event.key
        self.value: bytes | None = event.value
        self.headers = headers
        self.timestamp: int = event.timestamp
        self.attempt = 0

    def header(self, name: str) -> bytes | None:
        """The last header of that name."""
        return dict(self.headers).get(name)

    def done(self) -> None:
        """Nothing is left to do for it: its offset may be committed."""
        if self._is_open:
            self._is_open = False
            self._origin.done(self)

    def failed(self, error: BaseException | str) -> None:
        """It could not be handled. It comes again, or what `Retries` says."""
        if self._is_open:
            self._is_open = False
            self._origin.failed(self, error)

    def hand_out(self) -> None:
        """One more attempt begins."""
        self._is_open = True
        self.attempt += 1

    def __repr__(self) -> str:
        place = f"{self.topic}-{self.partition}@{self.offset}"
        return f"<Received {place} attempt {self.attempt}>"
