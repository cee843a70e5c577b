"""RESERVE and SETTLE for windows, through the gateway's suppression (`base.Decisions`)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from headgate.backends.base import Suppression
from headgate.coalescer.base import LogError, WindowDecision, WindowVerdict
from headgate.coalescer.digests import Digests
from headgate.coalescer.turns import Turns
from headgate.core.coalescing.window import Window
from headgate.core.keys import partition_for
from headgate.core.outcome import Failure
from headgate.core.publish import Publish, Stage
from headgate.core.record import Record
from headgate.core.suppression import Reservation, Scope
from headgate.core.topics.route import Route

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
