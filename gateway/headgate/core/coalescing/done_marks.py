"""Done marks of a held partition: which events need nothing more."""

from collections.abc import Sequence

from headgate.core.coalescing.held import DoneMark, HeldRecord
from headgate.core.coalescing.window import Window


class DoneMarks:
    """The done marks of a stretch of H that is too long to be held: of each key the newest.

    Only what is emitted while older windows are open is marked, so there are far fewer of them
    than of events. limit: how many keys at most.
    """

    def __init__(self, limit: int) -> None:
        self.by_key: dict[bytes, int] = {}
        self._limit = limit

    @property
    def are_too_many(self) -> bool:
        return len(self.by_key) > self._limit

    def read(self, records: Sequence[HeldRecord]) -> None:
        """Take the marks among these records."""
        for record in records:
            if type(record) is DoneMark:
                self.by_key[record.key] = max(record.done, self.by_key.get(record.key, -1))


def marks_of(emitted: Sequence[Window], low_water: int, topic_id: str) -> list[DoneMark]:
    """The done marks of a transaction: emitted events that will be read again (rule 6)."""
    return [
        DoneMark(window.last.key, window.last.offset, topic_id)
        for window in emitted
        if window.last.offset >= low_water
    ]
