"""Spans of coalesced events if requests are traced: a wrapper around the decisions."""

from collections.abc import Sequence
from typing import NamedTuple

from headgate.coalescer.decisions import Decisions, WindowDecision, WindowVerdict
from headgate.coalescer.windows import Window
from headgate.model.route import Route
from headgate.tracing.spans import Attributes, Carried, LaterSpans, carried

_GIVEN_UP = "not committed"


class _Traced(NamedTuple):
    """A decision's token, and the span of its window until it is settled."""

    token: object
    of: Carried
    topic: str
    began_ns: int
    attributes: Attributes


class TracedDecisions:
    """Decisions with a span for the newest event of each window, which is the published one.

    The span lasts from the event's arrival until the event is in its topic or unchanged.
    """

    def __init__(self, decisions: Decisions, spans: LaterSpans) -> None:
        self._decisions = decisions
        self._spans = spans

    async def reserve(self, route: Route, windows: Sequence[Window]) -> list[WindowDecision]:
        decisions = await self._decisions.reserve(route, windows)
        return [
            self._traced(route.topic, window, decided)
            for window, decided in zip(windows, decisions, strict=True)
        ]

    def settle(self, decided: WindowDecision, offset: int) -> None:
        traced = decided.token
        if isinstance(traced, _Traced):
            position: Attributes = {
                "messaging.destination.partition.id": str(decided.partition),
                "messaging.kafka.offset": offset,
            }
            self._end(traced, position)
            decided = decided._replace(token=traced.token)
        self._decisions.settle(decided, offset)

    def give_up(self, decided: WindowDecision, certain: bool) -> None:
        traced = decided.token
        if isinstance(traced, _Traced):
            self._end(traced, {}, _GIVEN_UP)
            decided = decided._replace(token=traced.token)
        self._decisions.give_up(decided, certain)

    def has_unreserved(self, route: Route) -> bool:
        return self._decisions.has_unreserved(route)

    def distrust(self, route: Route) -> None:
        self._decisions.distrust(route)

    def _traced(self, topic: str, window: Window, decided: WindowDecision) -> WindowDecision:
        of = carried(window.last.headers)
        if of is None or decided.verdict is WindowVerdict.WAIT:  # the session asks again later
            return decided
        attributes: Attributes = {
            "messaging.system": "kafka",
            "messaging.destination.name": topic,
            "headgate.superseded": sum(total.events for total in window.superseded.values()),
        }
        began_ns = window.last.arrived_ms * 1_000_000
        traced = _Traced(decided.token, of, topic, began_ns, attributes)
        if decided.verdict is WindowVerdict.UNCHANGED:
            self._end(traced, {"headgate.unchanged": 1})
            return decided
        return decided._replace(token=traced)

    def _end(self, traced: _Traced, more: Attributes, error: str = "") -> None:
        name, attributes = f"coalesce {traced.topic}", traced.attributes | more
        self._spans.end(traced.of, name, traced.began_ns, attributes, error)
