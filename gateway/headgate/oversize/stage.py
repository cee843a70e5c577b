"""Stage that fits oversized events to their topic's limits and keeps each key's order.

The stage is between the verdict "publish" and the lanes. A task of its own prepares each oversized
event off the event loop: it stores a blob, compresses a batch or splits a document. The event and
later events of its key wait meanwhile (`InOrder`). Until its first record is handed to the
producer, the event counts as waiting in its lane: the deadline may still drop it, and equal events
may follow it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence, Sized

from headgate.backends.base import Deliveries, Lanes, Suppression
from headgate.ingest.complete import Complete
from headgate.ingest.turn import InOrder, Produce, Reserve
from headgate.model.outcome import Failure, Reason, Refused
from headgate.model.publish import Publish, Stage
from headgate.model.route import BEHIND, event_too_large
from headgate.oversize.choose import ChooseStrategy, MultiRecordPublish, OversizePlan, Tools

log = logging.getLogger("headgate.oversize")

_BUG = Failure(Reason.INTERNAL, "the oversized event could not be prepared; nothing was written")
_CLOSED = Failure(
    Reason.DRAINING, "this instance has shut down; nothing was written", retry_after_s=1
)


class OversizeStage:
    """The oversize stage.

    Args:
        lanes: Lanes of the producer.
        reserve: Reserves the elements of splits.
        produce: Hands records over to the lanes.
        suppression: Suppression state.
        complete: Stage that ends events.
        ends: Gets the events that fail.
        tools: Tools of the strategies.
        count: Callback with producer, topic and strategy of each event that is written.
        is_behind: Returns whether the spool contains events of a topic.

    Attributes:
        waiting: Keys with an event that later events of the key must not overtake.
        in_parts: Events of which several records are in lanes.
    """

    def __init__(
        self,
        lanes: Lanes,
        reserve: Reserve,
        produce: Produce,
        suppression: Suppression,
        complete: Complete,
        ends: Deliveries,
        tools: Tools,
        count: Callable[[str, str, str], None],
        is_behind: Callable[[str], bool] | None = None,
    ) -> None:
        self._is_behind = is_behind
        self._lanes = lanes
        self._reserve = reserve
        self._produce = produce
        self._suppression = suppression
        self._complete = complete
        self._ends = ends
        self._ids = tools.ids
        self._choose = ChooseStrategy(tools)
        self._count = count
        self._order = InOrder(self._go_on)
        self.waiting: Sized = self._order.lines
        self._fitting: dict[Publish, asyncio.Task[None]] = {}
        self._plans: dict[Publish, OversizePlan | MultiRecordPublish | Failure] = {}
        self._manifests: dict[Publish, Publish] = {}  # placeholder of each event's manifest
        self._multi: dict[Publish, MultiRecordPublish] = {}
        self.in_parts: Sized = self._multi

    def take(self, publish: Publish) -> None:
        """Take an event of any size, in order of arrival.

        Events of topics without an oversize policy also come here while other events wait.
        """
        publish.advance(Stage.LANE)
        common = publish.common
        if publish.large is None or common is None:
            self._order.enter(publish, False)
            return
        if publish.event_id is None:
            publish.event_id = self._ids.take(common.now_ms)
        self._order.enter(publish, True)
        if "split" in common.route.strategies:  # its manifest goes later than its elements
            last = self._manifests[publish] = Publish(publish.record, 0, None, -1, None)
            self._order.enter(last, True)
        task = self._fitting[publish] = asyncio.ensure_future(self._prepare(publish))
        task.add_done_callback(lambda _: self._fitting.pop(publish))

    def is_preparing(self, publish: Publish) -> bool:
        """Return whether an event waits for its preparation, or for that of an earlier one."""
        return publish in self._order

    def drop(self, publish: Publish) -> None:
        """Drop an event of which no record was handed over; events behind it go on."""
        fitting = self._fitting.get(publish)
        if fitting is not None:  # its budget was returned, so its value must be freed
            fitting.cancel()
        self._plans.pop(publish, None)
        multi = self._multi.pop(publish, None)
        for part in multi.drop() if multi is not None else ():
            self._suppression.ended(part, True)
        self._release(publish)
        self._order.drop(publish)

    def handed_over(self, batch: Sequence[Publish]) -> None:
        """Mark the oversized events of a batch as handed over to the producer."""
        for publish in batch:
            if isinstance(publish.owner, MultiRecordPublish):
                publish.owner.handed_over()

    async def close(self) -> None:
        """Fail all events in preparation; nothing of them was written."""
        fitting = dict(self._fitting)
        for task in fitting.values():
            task.cancel()
        for publish in fitting:
            if not publish.dropped:
                self.drop(publish)
                self._ends.failed([publish], _CLOSED)
        if fitting:
            await asyncio.wait(fitting.values())

    async def _prepare(self, publish: Publish) -> None:
        plan: OversizePlan | Failure | None
        try:
            plan = await self._choose.plan(publish)
        except Refused as refused:
            plan = refused.failure
        except Exception:  # the outermost frame of this task
            log.exception("oversized event of topic %s failed", publish.record.topic)
            plan = _BUG
        if publish.dropped:
            return
        if plan is not None:
            self._plans[publish] = plan
        if not (isinstance(plan, OversizePlan) and plan.strategy == "split"):
            self._release(publish)
        self._order.ready(publish)

    def _release(self, publish: Publish) -> None:
        """Remove the placeholder of an event's manifest, if there is one."""
        last = self._manifests.pop(publish, None)
        if last is not None:
            self._plans.pop(last, None)
            self._order.drop(last)

    # ---- events whose turn has come

    def _go_on(self, publish: Publish) -> None:
        plan = self._plans.pop(publish, None)
        if isinstance(plan, MultiRecordPublish):  # `publish` is the manifest's placeholder
            self._put_part(plan.next_part())
        elif publish.large is None:
            if not publish.dropped:
                self._produce.queue_in_lane((publish,))
        elif isinstance(plan, OversizePlan):
            self._put(publish, plan)
        elif plan is None:
            self._refuse(publish)
        else:
            self._ends.failed([publish], plan)

    def _refuse(self, publish: Publish) -> None:
        """Fail an event that no strategy fits, with its size and its largest parts."""
        value, common = publish.record.value, publish.common
        assert common is not None
        if value is not None and publish.ticket is not None:
            publish.ticket.weigh(publish.index, value)
        self._ends.failed([publish], event_too_large(common.route, len(value or b""), publish.size))

    def _put(self, publish: Publish, plan: OversizePlan) -> None:
        failure = self._refusal(publish, plan)
        if failure is not None:
            self._release(publish)
            self._ends.failed([publish], failure)
        elif plan.strategy == "split":
            multi = MultiRecordPublish(
                publish, plan.strategy, plan.records, self._end, self._elements_written
            )
            self._multi[publish] = multi
            for part in [multi.next_part() for _ in plan.records[:-1]]:
                self._put_element(publish, part)
        else:
            multi = MultiRecordPublish(publish, plan.strategy, plan.records, self._end)
            self._multi[publish] = multi
            for part in [multi.next_part() for _ in plan.records]:
                self._put_part(part)

    def _put_part(self, part: Publish) -> None:
        assert part.common is not None  # it has the values of its event
        self._produce.put(part, part.common.route.lane)

    def _refusal(self, publish: Publish, plan: OversizePlan) -> Failure | None:
        """Return the failure if a lane or the spool blocks the event; nothing is written then."""
        assert publish.common is not None
        state = publish.common.route.state
        if self._is_behind is not None and self._is_behind(state.name):
            return BEHIND
        partitions = {each.record.partition for each in plan.records}
        refusals = (self._lanes.refusal(state, partition) for partition in partitions)
        return next((each for each in refusals if each is not None), None)

    def _put_element(self, publish: Publish, part: Publish) -> None:
        reservation = publish.reservation
        if not self._reserve.element(part, refuse=reservation is not None and reservation.refuse):
            self._produce.queue_in_lane((part,))

    def _elements_written(self, multi: MultiRecordPublish) -> None:
        """Send the manifest in its turn, so that its readers find all elements."""
        last = self._manifests.pop(multi.parent)
        self._plans[last] = multi
        self._order.ready(last)

    def _end(self, multi: MultiRecordPublish) -> None:
        publish = multi.parent
        self._multi.pop(publish, None)
        last = multi.written
        if last is None:
            self._release(publish)
            self._ends.failed([publish], multi.failure)
            return
        assert publish.ticket is not None
        self._count(publish.ticket.producer, publish.record.topic, multi.strategy)
        self._complete.written(publish, multi.strategy, last, multi.count)
        self._suppression.acknowledged([publish], last.offset)
