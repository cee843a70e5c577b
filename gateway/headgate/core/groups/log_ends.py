"""When a log's end passed an offset: what the age of a group's position is told from."""

from itertools import pairwise
from typing import NamedTuple

_MAX_POINTS = 96
_FRACTION = 3  # the error of an age is at most a third of it


class Point(NamedTuple):
    """The end offset that a log had at a time."""

    at_ms: int
    end: int


class LogEnds:
    """The end of one partition's log over time, ever more coarsely into the past.

    A point may go when the two beside it are no further apart than a third of their age. So the
    error of an age is at most a third of that age, or the time between two polls if that is more,
    also where nothing was written for long: the end of such a time is a point like any other. At
    most 96 points; if none of them may go, the oldest does, and with it the knowledge of what
    was before. At a poll every 10 s that is after months.
    """

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points: list[Point] = []

    def note(self, at_ms: int, end: int) -> None:
        """Take what the end is now. Times only grow; an end that went back is another log's."""
        points = self._points
        if points and end < points[-1].end:
            points.clear()
        if len(points) > 1 and points[-2].end == end:
            points.pop()  # of a time without records the first and the last point will do
        points.append(Point(at_ms, end))
        if len(points) > _MAX_POINTS:
            self._thin(at_ms)

    def _thin(self, now_ms: int) -> None:
        points = self._points
        kept = points[:1]
        for point, after in pairwise(points[1:]):
            if _FRACTION * (after.at_ms - kept[-1].at_ms) > now_ms - after.at_ms:
                kept.append(point)
        kept.append(points[-1])
        self._points = kept[-_MAX_POINTS:]

    def first_ms(self) -> int | None:
        """Since when the end is known."""
        return self._points[0].at_ms if self._points else None

    def written_ms(self, offset: int) -> int | None:
        """About when the record at `offset` was written.

        None: before anything is known here, or not yet.
        """
        points = self._points
        if not points or offset < points[0].end or offset >= points[-1].end:
            return None
        low, high = 0, len(points) - 1  # the first point whose end is above the offset
        while low < high:
            middle = (low + high) // 2
            if points[middle].end > offset:
                high = middle
            else:
                low = middle + 1
        after, before = points[low], points[low - 1]
        share = (offset - before.end) / (after.end - before.end)
        return before.at_ms + round(share * (after.at_ms - before.at_ms))
