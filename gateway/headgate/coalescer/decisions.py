"""Decisions on windows: RESERVE and SETTLE through the gateway's suppression."""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from headgate.backends.base import Suppression, Verdicts
from headgate.coalescer.windows import (
    HeldBounds,
    HeldEvent,
    HeldRecord,
    Window,
    WindowTimes,
)
from headgate.model.content import (
    INLINE_BYTES,
    CheckResult,
    Content,
    ContentCheck,
    Fallback,
    examine,
    examine_here,
    examine_in_need,
    is_long,
)
from headgate.model.keys import partition_for
from headgate.model.outcome import Failure
from headgate.model.publish import Publish, Record, Stage, content_type_of
from headgate.model.record import Header
from headgate.model.route import Route
from headgate.model.suppression import Reservation
from headgate.offload.helper_process import HelperProcess
from headgate.tracing.spans import Attributes, Carried, LaterSpans, carried

# ---- values between a partition's session, its log in Kafka and the suppression state


class LogError(Exception):
    """A failed or unknown result of a Kafka call, which ends the session.

    Args:
        label: Kind of error for metrics; there are few of them.
        detail: Description of the error.
        is_refusal: Kafka certainly did nothing. Otherwise the call may have, or may yet have,
            its effect.
    """

    def __init__(self, label: str, detail: str, is_refusal: bool = False) -> None:
        super().__init__(detail)
        self.label = label
        self.is_refusal = is_refusal


class Committed(NamedTuple):
    """The group's commit for a partition.

    Attributes:
        offset: The committed offset; -1 if there is none.
    """

    offset: int
    metadata: str


class Read(NamedTuple):
    """Records of one fetch.

    Attributes:
        position: The next offset, past all records that are not visible.
    """

    records: Sequence[HeldRecord]
    position: int


class Emission(NamedTuple):
    """One record for the topic.

    Attributes:
        partition: Partition of the topic.
        timestamp_ms: Timestamp, in milliseconds since 1970.
    """

    partition: int
    key: bytes
    value: bytes | None
    headers: list[Header]
    timestamp_ms: int


class WindowVerdict(Enum):
    """Redis's verdict on a window's content. WAIT: ask again later (redis_loss = "refuse")."""

    PUBLISH = 0
    UNCHANGED = 1
    WAIT = 2


class WindowSpan(NamedTuple):
    """The span of a window's newest event, from its arrival until it is settled."""

    context: Carried
    topic: str
    began_ns: int
    attributes: Attributes


class WindowDecision(NamedTuple):
    """A verdict on a window.

    Attributes:
        verdict: The verdict.
        publish: The newest event, for its settlement.
        partition: The partition of the topic.
        span: Its span; None unless its request was sampled.
    """

    verdict: WindowVerdict
    publish: Publish
    partition: int
    span: WindowSpan | None = None


class CoalescingRules(NamedTuple):
    """Coalescing rules of a topic. max_records, max_bytes: limits of one transaction."""

    times: WindowTimes
    bounds: HeldBounds
    max_records: int = 500
    max_bytes: int = 4_194_304


# ---- turns of a process' owners on the event loop: one piece of work at a time


class Turns:
    """Turns on the event loop, shared by all owners of a process.

    When a member dies, all owners recover at the same time, and their work would add up.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def take(self) -> None:
        """Wait for the next turn of the event loop that no other owner has had.

        All other tasks that are ready run before.
        """
        async with self._lock:
            await asyncio.sleep(0)


# ---- digests of windows for RESERVE: of bytes or of the canonical form
#
# The event loop examines small contents, the helper process large ones. All windows of a round have
# different keys, and a session has one round at a time. So the order within a key is kept.


_TURN_BYTES = INLINE_BYTES  # examined in one turn of the event loop: 1-2 ms
_WINDOW_BYTES = 640  # other cost of a window, as bytes of content


class Digests:
    """Digests of the contents of windows.

    Args:
        helper: Helper process for long contents.
        count: Called with topic and reason if bytes are compared instead of the canonical form.
        turns: Turns on the event loop.
    """

    def __init__(
        self, helper: HelperProcess, count: Callable[[str, Fallback], None], turns: Turns
    ) -> None:
        self._turns = turns
        self._helper = helper
        self._count = count

    async def of(self, route: Route, windows: Sequence[Window]) -> list[bytes | None]:
        """Return the digest of each window's newest content; None if the topic compares nothing."""
        check = None if route.check is None else route.check._replace(schema=None)
        if route.digest is None or check is None or check.comparison is None:
            return await self._raw(route, windows)
        examinations: dict[int, CheckResult] = {}
        waiting: dict[int, asyncio.Future[CheckResult | None]] = {}
        spent = 0
        for index, window in enumerate(windows):
            content = _content(window.last)
            if content is None:
                examinations[index] = CheckResult(None, route.digest(None, None))
            elif is_long(check, content):
                waiting[index] = self._helper.ask(examine, check, content)
            else:
                here = examine_here(check, content)
                assert here is not None  # only a schema can need the helper process
                examinations[index] = here
                spent += len(content.value)
            spent = await self._turn(spent)
        for index, answer in waiting.items():
            examinations[index] = await answer or self._examine_in_need(check, windows[index].last)
        return [self._counted(route, examinations[index]) for index in range(len(windows))]

    async def _raw(self, route: Route, windows: Sequence[Window]) -> list[bytes | None]:
        if route.digest is None:
            return [None] * len(windows)
        digests: list[bytes | None] = []
        spent = 0
        for window in windows:
            held = window.last
            digests.append(route.digest(held.value, content_type_of(held.headers)))
            # A hash takes a sixteenth of the time of an examination.
            spent = await self._turn(spent + len(held.value or b"") // 16)
        return digests

    @staticmethod
    def _examine_in_need(check: ContentCheck, held: HeldEvent) -> CheckResult:
        content = _content(held)
        assert content is not None
        return examine_in_need(check, content)

    async def _turn(self, spent: int) -> int:
        """Take a new turn when this one is used up.

        Args:
            spent: Bytes that were examined in this turn.

        Returns:
            The bytes that count for the current turn.
        """
        if spent < _TURN_BYTES:
            return spent + _WINDOW_BYTES
        await self._turns.take()
        return 0

    def _counted(self, route: Route, examination: CheckResult) -> bytes | None:
        if examination.fallback is not None:
            self._count(route.state.name, examination.fallback)
        return examination.digest


def _content(held: HeldEvent) -> Content | None:
    if held.value is None:
        return None
    return Content(held.value, content_type_of(held.headers), None)


_TURN_WINDOWS = 100  # reserved in one turn of the event loop
_ANSWER_S = 30.0  # far beyond the breaker's limits: a later verdict is a fault


class _Round:
    """A round of reservations and its missing verdicts."""

    def __init__(self, count: int) -> None:
        self.verdicts: list[WindowVerdict] = [WindowVerdict.PUBLISH] * count
        self.missing = count
        self.decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def put(self, index: int, verdict: WindowVerdict) -> None:
        self.verdicts[index] = verdict
        self.missing -= 1
        if not self.missing and not self.decided.done():
            self.decided.set_result(None)


class Decisions:
    """Decisions on windows: RESERVE before a write, SETTLE after it.

    docs/design/suppression-protocol.md describes both. The verdicts come from suppression
    (`base.Verdicts`). Several sessions reserve at the same time, each for keys of its own.

    Args:
        digests: Digests of contents.
        connect: Returns the suppression that reports its verdicts to this object.
        turns: Turns on the event loop.
        spans: Spans of events whose request was sampled; None without tracing.
    """

    def __init__(
        self,
        digests: Digests,
        connect: Callable[[Verdicts], Suppression],
        turns: Turns,
        spans: LaterSpans | None = None,
    ) -> None:
        self._turns = turns
        self._rounds: dict[Publish, _Round] = {}  # for publishes without a verdict
        self._digests = digests
        self._spans = spans
        self._suppression = connect(self)

    async def reserve(self, route: Route, windows: Sequence[Window]) -> list[WindowDecision]:
        """Return one decision for each window; all windows have different keys."""
        digests = await self._digests.of(route, windows)
        current = _Round(len(windows))
        publishes: list[Publish] = []
        try:
            async with asyncio.timeout(_ANSWER_S):
                for index, window in enumerate(windows):
                    if index % _TURN_WINDOWS == 0:
                        await self._turns.take()
                    publish = _publish(route, window, digests[index], index)
                    self._rounds[publish] = current
                    publishes.append(publish)
                    self._ask(publish)
                await current.decided
        except TimeoutError as error:
            self._break_off(publishes)
            raise LogError("no_verdict", "the suppression state gave no verdict") from error
        except BaseException:  # also if the verdict came in the turn of the cancellation
            self._break_off(publishes)
            raise
        return [
            WindowDecision(
                verdict, publish, publish.record.partition, self._span(route, window, verdict)
            )
            for window, verdict, publish in zip(windows, current.verdicts, publishes, strict=True)
        ]

    def _ask(self, publish: Publish) -> None:
        reservation = publish.reservation
        if publish.digest is None:
            if reservation is None or self._suppression.let_pass(reservation.scope, 1):
                self.publish(publish)
                return
            publish.digest, reservation.force, reservation.refuse = b"", True, False
        self._suppression.reserve(publish)

    def _break_off(self, publishes: Sequence[Publish]) -> None:
        """Abandon a round: end its publishes, each as soon as it has a verdict."""
        for publish in publishes:
            publish.dropped = True
            self._rounds.pop(publish, None)
            if publish.stage is Stage.LANE:
                self._suppression.ended(publish, True)

    def settle(self, decided: WindowDecision, offset: int) -> None:
        """Settle a window whose record is in the topic, at this offset."""
        position: Attributes = {
            "messaging.destination.partition.id": str(decided.partition),
            "messaging.kafka.offset": offset,
        }
        self._end_span(decided.span, position)
        decided.publish.advance(Stage.ENDED)
        self._suppression.acknowledged([decided.publish], offset)

    def give_up(self, decided: WindowDecision, certain: bool) -> None:
        """Give up a window whose record may not be in the topic.

        Args:
            decided: Decision on the window.
            certain: The record is not in the topic, because EndTxn was never sent.
        """
        self._end_span(decided.span, {}, "not committed")
        decided.publish.advance(Stage.ENDED)
        self._suppression.ended(decided.publish, certain)

    def has_unreserved(self, route: Route) -> bool:
        """Return whether an event was published without RESERVE and is not settled yet."""
        return route.digest is not None and not self._suppression.is_settled()

    def distrust(self, route: Route) -> None:
        """Forget the state of the topic before the next RESERVE (rule 12)."""
        if route.scope is not None and route.digest is not None:
            self._suppression.drop(route.scope)

    def _span(self, route: Route, window: Window, verdict: WindowVerdict) -> WindowSpan | None:
        """Begin the span of a window's newest event, which is the published one.

        The session asks again about a window that must wait. An unchanged event ends at once.
        """
        context = None if self._spans is None else carried(window.last.headers)
        if context is None or verdict is WindowVerdict.WAIT:
            return None
        attributes: Attributes = {
            "messaging.system": "kafka",
            "messaging.destination.name": route.topic,
            "headgate.superseded": sum(total.events for total in window.superseded.values()),
        }
        span = WindowSpan(context, route.topic, window.last.arrived_ms * 1_000_000, attributes)
        if verdict is WindowVerdict.PUBLISH:
            return span
        self._end_span(span, {"headgate.unchanged": 1})
        return None

    def _end_span(self, span: WindowSpan | None, more: Attributes, error: str = "") -> None:
        if span is not None and self._spans is not None:
            attributes = span.attributes | more
            name = f"coalesce {span.topic}"
            self._spans.end(span.context, name, span.began_ns, attributes, error)

    # ---- base.Verdicts

    def publish(self, publish: Publish) -> None:
        publish.advance(Stage.LANE)  # so that suppression renews its token
        self._answer(publish, WindowVerdict.PUBLISH)

    def unchanged(self, publish: Publish, offset: int) -> None:
        self._answer(publish, WindowVerdict.UNCHANGED)

    def refused(self, publish: Publish, failure: Failure) -> None:
        self._answer(publish, WindowVerdict.WAIT)

    def _answer(self, publish: Publish, verdict: WindowVerdict) -> None:
        self._rounds.pop(publish).put(publish.index, verdict)


def _publish(route: Route, window: Window, digest: bytes | None, index: int) -> Publish:
    held = window.last
    partition = partition_for(held.key, route.state.partitions)
    record = Record(route.topic, partition, held.key, held.value, held.headers, held.timestamp_ms)
    publish = Publish(record, held.size, None, index, None)
    publish.digest = digest
    if route.scope is not None:
        refuse = route.policy.redis_loss == "refuse"
        publish.reservation = Reservation(
            route.scope, route.state.partitions, window.is_forced, refuse
        )
    return publish
