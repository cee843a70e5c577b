"""RESERVE and SETTLE for windows, through the gateway's suppression (`base.Decisions`)."""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from headgate.backends.base import Suppression
from headgate.core.coalescing import (
    DoneMark,
    Figures,
    HeldBounds,
    HeldEvent,
    HeldRecord,
    Window,
    WindowTimes,
)
from headgate.core.content import (
    INLINE_BYTES,
    Content,
    Examination,
    Orders,
    examine,
    examine_here,
    examine_in_need,
    is_long,
)
from headgate.core.formats.canonical import Fallback
from headgate.core.keys import partition_for
from headgate.core.outcome import Failure
from headgate.core.publish import Publish, Stage
from headgate.core.record import Header, Record, content_type_in
from headgate.core.suppression import Reservation, Scope
from headgate.core.topics.route import Route
from headgate.offload.helper_process import HelperProcess

# What the session of an assignment asks of Kafka, of the suppression state and of its process.
#
# `partition_session.py` talks to these protocols only, without asyncio: the simulation in tests
# drives the same code by hand, step by step, through crashes and zombies.


class LogError(Exception):
    """Kafka did not do what it was asked, or its answer is not known: this session is over.

    label: bounded variety, for metrics.  is_refusal: it certainly did nothing of what it was
    asked; else it may have, or may yet do it.
    """

    def __init__(self, label: str, detail: str, is_refusal: bool = False) -> None:
        super().__init__(detail)
        self.label = label
        self.is_refusal = is_refusal


class Committed(NamedTuple):
    """What the group knows of a partition. offset: -1 = nothing."""

    offset: int
    metadata: str


class Read(NamedTuple):
    """What was read. position: the next offset, past whatever is not shown."""

    records: Sequence[HeldRecord]
    position: int


class Emission(NamedTuple):
    """One record for the topic. key, value, headers: as in Kafka.  partition: of the topic."""

    partition: int
    key: bytes
    value: bytes | None
    headers: list[Header]
    timestamp_ms: int


class HeldPartition(Protocol):
    """One partition of H, and one transactional producer, for one session of an assignment.

    Every call may raise LogError. Nothing here is shared with an earlier life (rules 1, 3).
    """

    async def fence(self) -> None:
        """InitProducerId: ends every earlier owner's transaction, and waits for its markers."""
        ...

    async def committed(self) -> Committed:
        """Read the group's offset."""
        ...

    async def end(self) -> int:
        """Where H ends, read_committed."""
        ...

    async def seek(self, offset: int) -> int:
        """Read on from there, or from the earliest there is; returns the position."""
        ...

    async def read(self, wait_ms: int) -> Read:
        """Wait so long at most for records; empty when there are none or it is time to stop."""
        ...

    async def append(self, emissions: Sequence[Emission], marks: Sequence[DoneMark]) -> list[int]:
        """Begin a transaction and write; the emissions' offsets, -1 where Kafka gave none."""
        ...

    async def send_offset(self, offset: int, metadata: str) -> None:
        """The group's offset, in the transaction (begun here if there is none)."""
        ...

    async def end_transaction(self) -> None:
        """EndTxn(commit). After an error it is not known whether it is committed."""
        ...


class WindowVerdict(Enum):
    """What Redis says of a window's content. WAIT: not now (redis_loss = "refuse")."""

    PUBLISH = 0
    UNCHANGED = 1
    WAIT = 2


class WindowDecision(NamedTuple):
    """token: whatever the decisions need to settle it.  partition: of the topic."""

    verdict: WindowVerdict
    token: object
    partition: int


class Decisions(Protocol):
    """RESERVE before, SETTLE after (docs/design/suppression-protocol.md)."""

    async def reserve(self, route: Route, windows: Sequence[Window]) -> list[WindowDecision]:
        """One verdict for each window, of different keys."""
        ...

    def settle(self, decided: WindowDecision, offset: int) -> None:
        """The record is in the topic, at this offset."""
        ...

    def give_up(self, decided: WindowDecision, certain: bool) -> None:
        """Not known to be in the topic. certain: it cannot be, for EndTxn was never sent."""
        ...

    def has_unreserved(self, route: Route) -> bool:
        """Whether something was published without asking Redis, and is not settled yet."""
        ...

    def distrust(self, route: Route) -> None:
        """Before the next RESERVE forget what is known of the topic (rule 12)."""
        ...


class CoalescingRules(NamedTuple):
    """What holds for a topic. limits of one transaction: records and bytes."""

    times: WindowTimes
    bounds: HeldBounds
    max_records: int = 500
    max_bytes: int = 4_194_304


class AssignmentHost(Protocol):
    """The process around an assignment."""

    def now_ms(self) -> int: ...

    def is_stopping(self) -> bool:
        """Whether to end after the transaction that is under way."""
        ...

    async def turn(self) -> None:
        """Before a piece of work, so that those of all owners never come in one go."""
        ...

    async def pause(self, milliseconds: int) -> None:
        """Wait, or until it is time to stop."""
        ...

    def route(self) -> Route:
        """The topic's route in force. Raises LogError while the topic cannot be written to."""
        ...

    def topic_id(self) -> str:
        """H's id, in hex."""
        ...

    def ended(self, outcome: str, windows: Sequence[Window]) -> None:
        """Windows that ended for good: the newest event `outcome`, the others superseded."""
        ...

    def show(self, figures: Figures) -> None:
        """What is held now."""
        ...


# Turns of a process' owners at the event loop: one piece of work at a time, others in between.


class Turns:
    """Shared by all owners of a process. When a member dies all of them recover at the same time,
    and what each does in one go would add up.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def take(self) -> None:
        """Wait for the next turn: no other owner has had this one, and whoever else waits for the
        event loop came first.
        """
        async with self._lock:
            await asyncio.sleep(0)


# What the content of windows is, for RESERVE: bytes or canonical form, as their topic compares.
#
# Small ones are examined between two turns of the event loop, large ones in the helper process. All
# are of different keys, and a session asks for one round at a time: a key's order cannot suffer.


_TURN_BYTES = INLINE_BYTES  # examined in one turn of the event loop: 1-2 ms
_WINDOW_BYTES = 640  # what else a window costs, in the same money


class Digests:
    """count: told topic and reason of each content whose bytes are compared instead of its form."""

    def __init__(
        self, helper: HelperProcess, count: Callable[[str, Fallback], None], turns: Turns
    ) -> None:
        self._turns = turns
        self._helper = helper
        self._count = count

    async def of(self, route: Route, windows: Sequence[Window]) -> list[bytes | None]:
        """The digest of each window's newest content; None where the topic compares nothing."""
        orders = None if route.orders is None else route.orders._replace(schema=None)
        if route.digest is None or orders is None or orders.comparison is None:
            return await self._raw(route, windows)
        found: dict[int, Examination] = {}
        waiting: dict[int, asyncio.Future[Examination | None]] = {}
        spent = 0
        for place, window in enumerate(windows):
            content = _content(window.last)
            if content is None:
                found[place] = Examination(None, route.digest(None, None))
            elif is_long(orders, content):
                waiting[place] = self._helper.ask(examine, orders, content)
            else:
                here = examine_here(orders, content)
                assert here is not None  # only a schema can be too much for here
                found[place] = here
                spent += len(content.value)
            spent = await self._turn(spent)
        for place, answer in waiting.items():
            found[place] = await answer or self._in_need(orders, windows[place].last)
        return [self._counted(route, found[place]) for place in range(len(windows))]

    async def _raw(self, route: Route, windows: Sequence[Window]) -> list[bytes | None]:
        if route.digest is None:
            return [None] * len(windows)
        digests: list[bytes | None] = []
        spent = 0
        for window in windows:
            held = window.last
            digests.append(route.digest(held.value, content_type_in(held.headers)))
            spent = await self._turn(spent + len(held.value or b"") // 16)  # a hash is so fast
        return digests

    @staticmethod
    def _in_need(orders: Orders, held: HeldEvent) -> Examination:
        content = _content(held)
        assert content is not None
        return examine_in_need(orders, content)

    async def _turn(self, spent: int) -> int:
        """Let others have the event loop now and then; returns what is spent of the next turn."""
        if spent < _TURN_BYTES:
            return spent + _WINDOW_BYTES
        await self._turns.take()
        return 0

    def _counted(self, route: Route, examination: Examination) -> bytes | None:
        if examination.fallback is not None:
            self._count(route.state.name, examination.fallback)
        return examination.digest


def _content(held: HeldEvent) -> Content | None:
    if held.value is None:
        return None
    return Content(held.value, content_type_in(held.headers), None)


_TURN_WINDOWS = 100  # reserved in one turn of the event loop
_ANSWER_S = 30.0  # far beyond what the breaker allows: then something is broken


class Trust(Protocol):
    """What of suppression only the coalescer asks for."""

    def is_settled(self) -> bool:
        """Whether Redis has been told all that it must know."""
        ...

    def drop(self, scope: Scope) -> None:
        """Delete the namespace's incarnation before anything else is asked of it."""
        ...


class _Question:
    """A round of reservations: how many verdicts are missing."""

    def __init__(self, count: int) -> None:
        self.verdicts: list[WindowVerdict] = [WindowVerdict.PUBLISH] * count
        self.missing = count
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def put(self, index: int, verdict: WindowVerdict) -> None:
        self.verdicts[index] = verdict
        self.missing -= 1
        if not self.missing and not self.answered.done():
            self.answered.set_result(None)


class SuppressedDecisions:
    """Listens to suppression (`base.Verdicts`) and answers the coalescer.

    Several sessions ask at the same time, each about keys of its own.
    """

    def __init__(
        self,
        digests: Digests,
        connect: "Callable[[SuppressedDecisions], tuple[Suppression, Trust]]",
        turns: Turns,
    ) -> None:
        self._turns = turns
        self._questions: dict[Publish, _Question] = {}  # who waits for each verdict
        self._digests = digests
        self._suppression, self._trust = connect(self)

    # ---- base.Decisions

    async def reserve(self, route: Route, windows: Sequence[Window]) -> list[WindowDecision]:
        digests = await self._digests.of(route, windows)
        question = _Question(len(windows))
        publishes: list[Publish] = []
        try:
            async with asyncio.timeout(_ANSWER_S):
                for index, window in enumerate(windows):
                    if index % _TURN_WINDOWS == 0:
                        await self._turns.take()
                    publish = _publish(route, window, digests[index], index)
                    self._questions[publish] = question
                    publishes.append(publish)
                    self._ask(publish)
                await question.answered
        except TimeoutError as error:
            self._break_off(publishes)
            raise LogError("no_verdict", "the suppression state gave no verdict") from error
        except BaseException:  # also when the answer came in the turn in which it was cancelled
            self._break_off(publishes)
            raise
        return [
            WindowDecision(verdict, publish, publish.record.partition)
            for verdict, publish in zip(question.verdicts, publishes, strict=True)
        ]

    def _ask(self, publish: Publish) -> None:
        reservation = publish.reservation
        if publish.digest is None:
            if reservation is None or self._suppression.passes(reservation.scope, 1):
                self.publish(publish)
                return
            publish.digest, reservation.force, reservation.refuse = b"", True, False
        self._suppression.reserve(publish)

    def _break_off(self, publishes: Sequence[Publish]) -> None:
        """Nobody waits any more: end those that may be published, and the others when they may."""
        for publish in publishes:
            publish.dropped = True
            self._questions.pop(publish, None)
            if publish.stage is Stage.LANE:
                self._suppression.ended(publish, True)

    def settle(self, decided: WindowDecision, offset: int) -> None:
        publish = decided.token
        if isinstance(publish, Publish):
            publish.advance(Stage.ENDED)
            self._suppression.acknowledged([publish], offset)

    def give_up(self, decided: WindowDecision, certain: bool) -> None:
        publish = decided.token
        if isinstance(publish, Publish):
            publish.advance(Stage.ENDED)
            self._suppression.ended(publish, certain)

    def has_unreserved(self, route: Route) -> bool:
        return route.digest is not None and not self._trust.is_settled()

    def distrust(self, route: Route) -> None:
        if route.scope is not None and route.digest is not None:
            self._trust.drop(route.scope)

    # ---- base.Verdicts

    def publish(self, publish: Publish) -> None:
        publish.advance(Stage.LANE)  # so that its token is renewed
        self._answer(publish, WindowVerdict.PUBLISH)

    def unchanged(self, publish: Publish, offset: int) -> None:
        self._answer(publish, WindowVerdict.UNCHANGED)

    def refused(self, publish: Publish, failure: Failure) -> None:
        self._answer(publish, WindowVerdict.WAIT)

    def _answer(self, publish: Publish, verdict: WindowVerdict) -> None:
        self._questions.pop(publish).put(publish.index, verdict)


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
