"""The topic that a client may have meant by a name that is not served."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Final

_REFRESH_S: Final = 5.0
_PER_REFRESH: Final = (
    20  # new names that are compared, each in some ms if there are very many topics
)
_COMPARED: Final = 200  # topics, for each name
_LENGTHS: Final = 2  # how much longer or shorter a topic may be
_KEPT: Final = 5  # topics for each name: a caller may not write to all of them


class SimilarTopics:
    """Finds similar names among the topics that are served, with a bound on the work.

    Clients choose names freely, so the work must not grow with the number of their requests. Names
    that were compared are remembered, and only some new ones are compared in a period.

    Args:
        served: Returns the names of the topics that are served now.
        clock: Monotonic clock, in seconds.
    """

    def __init__(self, served: Callable[[], Iterable[str]], clock: Callable[[], float]) -> None:
        self._served = served
        self._clock = clock
        self._until_s = float("-inf")
        self._names: tuple[str, ...] = ()
        self._known: dict[str, list[str]] = {}

    def find(self, topic: str, may_post: Callable[[str], bool]) -> str | None:
        """Return the most similar topic that the caller may write to, or None.

        A topic that the caller may not write to is never named.
        """
        now_s = self._clock()
        if now_s >= self._until_s:
            self._until_s = now_s + _REFRESH_S
            self._names, self._known = tuple(self._served()), {}
        if topic not in self._known:
            if len(self._known) >= _PER_REFRESH:
                return None
            self._known[topic] = self._compare(topic)
        return next(filter(may_post, self._known[topic]), None)

    def _compare(self, topic: str) -> list[str]:
        wanted, length = topic.lower(), len(topic)
        if not wanted:
            return []
        ends = {wanted[0], wanted[-1]}
        alike: dict[str, str] = {}
        for name in self._names:
            lower = name.lower()
            if abs(len(name) - length) <= _LENGTHS and (lower[0] in ends or lower[-1] in ends):
                alike.setdefault(lower, name)
                if len(alike) == _COMPARED:
                    break
        return [alike[lower] for lower in get_close_matches(wanted, alike, _KEPT, 0.75)]
