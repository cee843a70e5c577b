"""Takes the events of topics with a ladder, and keeps each key's order while large ones climb.

It stands between the verdict "publish" and the lanes. What an oversized event needs (a blob stored,
a batch compressed, a document cut) is done off the event loop by a task of its own; it and the
events of its key behind it wait meanwhile (`in_order`). Until its first record is handed to the
producer it counts as waiting in its lane: the deadline may still give it up, and equal events may
follow it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from headgate.backends.base import Lanes, Suppression
from headgate.core.event import Refused
from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Publish, Stage
from headgate.core.route import Oversized, Route
from headgate.oversize.climb import Climb, Tools
from headgate.oversize.parts import Whole
from headgate.oversize.plans import Plan
from headgate.pipeline.in_order import InOrder

log = logging.getLogger(__name__)

_BUG = Failure(Reason.INTERNAL, "the oversized event could not be prepared; nothing was written")
_CLOSED = Failure(Reason.DRAINING, "this instance has shut down; nothing was written", None, 1)


class Listener(Protocol):
    """Who ends the events (`endings.Endings`)."""

    def hand_over(self, publish: Publish) -> None: ...

    def failed(self, batch: list[Publish], failure: Failure) -> None: ...

    def too_large(self, publish: Publish, route: Route) -> None:
        """No rung took it."""
        ...

    def written(self, publish: Publish, whole: Whole) -> None:
        """All its parts are in Kafka."""
        ...


class Ladder:
    """See the module. count: told producer, topic and rung of each event that is written."""

    def __init__(
        self, listener: Listener, tools: Tools, count: Callable[[str, str, str], None]
    ) -> None:
        self._listener = listener
        self._ids = tools.ids
        self._climb = Climb(tools)
        self._count = count
        self._order = InOrder(self._go_on)
        self._climbing: dict[Publish, asyncio.Task[None]] = {}
        self._plans: dict[Publish, Plan | Whole | Failure] = {}
        self._manifests: dict[Publish, Publish] = {}  # the place of each event's manifest
        self._wholes: dict[Publish, Whole] = {}  # events whose records are on their way

    def connect(self, lanes: Lanes, suppression: Suppression) -> None:
        """Close the circle (see `Endings.connect`)."""
        self._lanes = lanes
        self._suppression = suppression

    def take(self, publish: Publish) -> None:
        """Take an event of a topic with a ladder, of any size, in order of arrival."""
        publish.stage = Stage.LANE
        oversized: Oversized | None = publish.oversized
        if oversized is None:
            self._order.enter(publish, False)
            return
        if publish.event_id is None:
            publish.event_id = self._ids.take(publish.common.now_ms)
        self._order.enter(publish, True)
        if "split" in oversized.route.ladder:  # its manifest goes later than its elements
            last = self._manifests[publish] = Publish(publish.record, 0, None, -1, None)
            self._order.enter(last, True)
        task = self._climbing[publish] = asyncio.ensure_future(self._prepare(publish, oversized))
        task.add_done_callback(lambda _: self._climbing.pop(publish))

    def drop(self, publish: Publish) -> None:
        """It was given up before any of it was handed over: those behind it go on."""
        climbing = self._climbing.get(publish)
        if climbing is not None:  # the budget has its bytes back, so nothing may hold its value
            climbing.cancel()
        self._plans.pop(publish, None)
        whole = self._wholes.pop(publish, None)
        for part in whole.drop() if whole is not None else ():
            self._suppression.ended(part, True)
        self._release(publish)
        self._order.drop(publish)

    def handed_over(self, batch: Sequence[Publish]) -> None:
        """A lane's batch is with the producer."""
        if self._wholes:
            for publish in batch:
                if publish.whole is not None:
                    publish.whole.handed_over()

    async def close(self) -> None:
        """End what is being prepared: it was not written."""
        climbing = dict(self._climbing)
        for task in climbing.values():
            task.cancel()
        for publish in climbing:
            if not publish.dropped:
                self.drop(publish)
                self._listener.failed([publish], _CLOSED)
        if climbing:
            await asyncio.wait(climbing.values())

    async def _prepare(self, publish: Publish, oversized: Oversized) -> None:
        plan: Plan | Failure | None
        try:
            plan = await self._climb.plan(publish, oversized)
        except Refused as refused:
            plan = refused.failure
        except Exception:  # the outermost frame of this task
            log.exception("an oversized event of %s failed", publish.record.topic)
            plan = _BUG
        if publish.dropped:
            return
        if plan is not None:
            self._plans[publish] = plan
        if not (isinstance(plan, Plan) and plan.rung == "split"):
            self._release(publish)
        self._order.ready(publish)

    def _release(self, publish: Publish) -> None:
        """No manifest will come: its place is free."""
        last = self._manifests.pop(publish, None)
        if last is not None:
            self._plans.pop(last, None)
            self._order.drop(last)

    # ---- its turn has come

    def _go_on(self, publish: Publish) -> None:
        plan = self._plans.pop(publish, None)
        if isinstance(plan, Whole):  # `publish` only kept the place of the last record
            self._lanes.put(plan.next_part())
        elif publish.oversized is None:
            if not publish.dropped:
                self._listener.hand_over(publish)
        elif isinstance(plan, Plan):
            self._put(publish, plan)
        elif plan is None:
            self._listener.too_large(publish, publish.oversized.route)
        else:
            self._listener.failed([publish], plan)

    def _put(self, publish: Publish, plan: Plan) -> None:
        failure = self._refusal(publish, plan)
        if failure is not None:
            self._release(publish)
            self._listener.failed([publish], failure)
        elif plan.rung == "split":
            whole = Whole(publish, plan.rung, plan.records, self._end, self._elements_written)
            self._wholes[publish] = whole
            for part in [whole.next_part() for _ in plan.records[:-1]]:
                self._put_element(publish, part)
        else:
            whole = Whole(publish, plan.rung, plan.records, self._end)
            self._wholes[publish] = whole
            for part in [whole.next_part() for _ in plan.records]:
                self._lanes.put(part)

    def _refusal(self, publish: Publish, plan: Plan) -> Failure | None:
        """Why some lane takes nothing: then nothing of the event is written."""
        state = publish.oversized.route.state
        partitions = {each.record.partition for each in plan.records}
        refusals = (self._lanes.refusal(state, partition) for partition in partitions)
        return next((each for each in refusals if each is not None), None)

    def _put_element(self, publish: Publish, part: Publish) -> None:
        """An element is a record of its own key: where the topic suppresses, that key's state must
        learn of it, or an equal event would be compared with what is no longer the newest."""
        route: Route = publish.oversized.route
        if route.digest is not None:
            part.digest = route.digest(part.record.value, part.record.headers[0][1])
        elif route.scope is None or self._suppression.passes(route.scope, 1):
            part.scope = route.scope
            self._listener.hand_over(part)
            return
        else:
            part.digest = b""
        part.scope, part.force, part.refuse = route.scope, True, publish.refuse
        part.partitions = route.state.partitions
        self._suppression.reserve(part)

    def _elements_written(self, whole: Whole) -> None:
        """Now the manifest, in its turn: who reads it finds all its elements."""
        last = self._manifests.pop(whole.parent)
        self._plans[last] = whole
        self._order.ready(last)

    def _end(self, whole: Whole) -> None:
        publish = whole.parent
        self._wholes.pop(publish, None)
        if whole.is_written:
            self._count(publish.ticket.producer, publish.record.topic, whole.rung)
            self._listener.written(publish, whole)
        else:
            self._release(publish)
            self._listener.failed([publish], whole.failure)
