"""Wrappers that measure stages: each takes the position of a stage and passes all calls on.

They exist only if tracing is on (`wiring.tracing`), so without tracing they cost nothing.
"""

from collections.abc import Iterator, Sequence

from headgate.backends.base import Deliveries, Lanes, Suppression, Verdicts
from headgate.core.outcome import Failure
from headgate.core.publish import Publish
from headgate.core.suppression import Scope
from headgate.core.topics.topic import TopicState
from headgate.tracing.spans import Producing, Reserving, Traces


class TracedLanes:
    """Traced lanes: a produce span begins with the first record that enters a lane.

    Implements `base.Lanes`.
    """

    def __init__(self, lanes: Lanes, traces: Traces) -> None:
        self._lanes = lanes
        self._traces = traces

    def put(self, publish: Publish) -> None:
        trace = self._traces.of(publish)
        if trace is not None:
            trace.ticket = publish.ticket or trace.ticket
            producing = trace.producing
            if producing is None:
                topic, now_ns = publish.record.topic, self._traces.clock_ns()
                producing = trace.producing = Producing(topic, now_ns)
            producing.open += 1
            producing.records += 1
        self._lanes.put(publish)

    def refusal(self, state: TopicState, partition: int) -> Failure | None:
        return self._lanes.refusal(state, partition)

    def head(self, topic: str, partition: int) -> Publish | None:
        return self._lanes.head(topic, partition)

    def withdraw(self, topic: str, partition: int) -> tuple[list[Publish], list[Publish]]:
        return self._lanes.withdraw(topic, partition)


class TracedDeliveries:
    """Traced lane reports: a produce span ends with its last record.

    Implements `base.Deliveries`.
    """

    def __init__(self, deliveries: Deliveries, traces: Traces) -> None:
        self._deliveries = deliveries
        self._traces = traces

    def handed_over(self, batch: Sequence[Publish]) -> None:
        now_ns = self._traces.clock_ns()
        for _, _, producing in self._traced(batch):
            producing.handed_ns = producing.handed_ns or now_ns
        self._deliveries.handed_over(batch)

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        now_ns = self._traces.clock_ns()
        for index, publish, producing in self._traced(batch):
            offset = base_offset + index if base_offset >= 0 else -1
            producing.place = (publish.record.partition, offset)
            _end(producing, now_ns)
        self._deliveries.acknowledged(batch, base_offset)

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        now_ns = self._traces.clock_ns()
        for _, _, producing in self._traced(batch):
            producing.error = str(failure.reason)
            _end(producing, now_ns)
        self._deliveries.failed(batch, failure)

    def _traced(self, batch: Sequence[Publish]) -> Iterator[tuple[int, Publish, Producing]]:
        """Yield the events of sampled requests, with their index in the batch."""
        if self._traces.is_idle:
            return
        for index, publish in enumerate(batch):
            trace = self._traces.of(publish)
            if trace is not None and trace.producing is not None:
                yield index, publish, trace.producing


def _end(producing: Producing, now_ns: int) -> None:
    producing.open -= 1
    producing.ended_ns = now_ns


class TracedSuppression:
    """Traced suppression: a reserve span begins with the first reservation.

    Implements `base.Suppression`.
    """

    def __init__(self, suppression: Suppression, traces: Traces) -> None:
        self._suppression = suppression
        self._traces = traces

    def reserve(self, publish: Publish) -> None:
        trace = self._traces.of(publish)
        if trace is not None:
            trace.ticket = publish.ticket or trace.ticket
            reserving = trace.reserving
            if reserving is None:
                topic, now_ns = publish.record.topic, self._traces.clock_ns()
                reserving = trace.reserving = Reserving(topic, now_ns)
            reserving.events += 1
        self._suppression.reserve(publish)

    def passes(self, scope: Scope, count: int) -> bool:
        return self._suppression.passes(scope, count)

    def hold(self, scope: Scope) -> None:
        self._suppression.hold(scope)

    def release(self, scope: Scope) -> None:
        self._suppression.release(scope)

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        self._suppression.acknowledged(batch, base_offset)

    def ended(self, publish: Publish, certain: bool) -> None:
        self._suppression.ended(publish, certain)


class TracedVerdicts:
    """Traced verdicts: a reserve span ends with the last verdict.

    Implements `base.Verdicts`.
    """

    def __init__(self, verdicts: Verdicts, traces: Traces) -> None:
        self._verdicts = verdicts
        self._traces = traces

    def publish(self, publish: Publish) -> None:
        reserving = self._answered(publish)
        if reserving is not None and publish.reservation is not None:
            reserving.unreserved += publish.reservation.unreserved
        self._verdicts.publish(publish)

    def unchanged(self, publish: Publish, offset: int) -> None:
        reserving = self._answered(publish)
        if reserving is not None:
            reserving.unchanged += 1
        self._verdicts.unchanged(publish, offset)

    def refused(self, publish: Publish, failure: Failure) -> None:
        self._answered(publish)
        self._verdicts.refused(publish, failure)

    def _answered(self, publish: Publish) -> Reserving | None:
        trace = self._traces.of(publish)
        if trace is None or trace.reserving is None:
            return None
        trace.reserving.ended_ns = self._traces.clock_ns()
        return trace.reserving
