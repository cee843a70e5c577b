"""The queue of one process, and what becomes of it when Redis cannot be asked."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Final

from headgate.backends.base import Verdicts
from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Publish, Stage
from headgate.core.suppression.layout import Agreement
from headgate.core.suppression.protocol import Scope, SuppressionCall, SuppressionReply
from headgate.suppression.arrivals import Arrivals
from headgate.suppression.completions import Completions
from headgate.suppression.in_flight import PublishesInFlight
from headgate.suppression.namespaces import Namespaces
from headgate.suppression.options import SuppressionMeter, SuppressOptions
from headgate.suppression.outgoing import OutgoingCall
from headgate.suppression.settlements import Settlements
from headgate.suppression.waits import Waits

# Looking a member up in an Enum class costs 0.1 us in Python 3.11.
_RESERVING: Final = Stage.RESERVING

_NONE: Final = set[Scope]()

_REFUSED = Failure(
    Reason.REDIS_UNAVAILABLE,
    "Redis does not answer (in time), and without it this topic publishes nothing",
    retry_after_s=1,
)


class BypassMode(Enum):
    """AWAY: events go past Redis. CATCHING_UP: they still do, while Redis learns what it missed.
    READY: events are reserved."""

    AWAY = 0
    CATCHING_UP = 1
    READY = 2


class Bypass:
    """What `claims.Claims` stands on. new_stem: 10 bytes that were never used before.

    A token is a stem and a number of two bytes.  agreement: on which servers there are.
    """

    def __init__(
        self,
        verdicts: Verdicts,
        options: SuppressOptions,
        meter: SuppressionMeter,
        new_stem: Callable[[], bytes],
        agreement: Agreement,
    ) -> None:
        self._agreement = agreement
        self._quarantine_s = options.quarantine_ms / 1000
        self._verdicts = verdicts
        self._meter = meter
        self._new_stem = new_stem
        self._arrivals = Arrivals()
        self._queue: deque[Publish] = deque()
        self._settlements = Settlements(options.unreserved_max)
        self._in_flight = PublishesInFlight(
            self._arrivals, options.unknown_max, options.fences_by_writing
        )
        self._namespaces = Namespaces()
        self._ends = Completions(
            self._arrivals, self._in_flight, self._settlements, self._namespaces,
            options.token_ttl_ms / 1000, new_stem,
        )  # fmt: skip
        self._outgoing: OutgoingCall | None = None
        self._waits = Waits(options.timeout_ms / 1000)
        self._draining = False
        self._owes = False  # published unreserved since Redis last knew everything
        self.mode = BypassMode.AWAY

    # ---- how publishes end

    def acknowledged(self, batch: Sequence[Publish], base_offset: int, now_s: float) -> None:
        """See `base.Suppression`."""
        self._ends.acknowledged(batch, base_offset, now_s, self.mode is BypassMode.AWAY)

    def settle(self, first: Publish, placed: Iterable[tuple[int, Publish]]) -> None:
        """Those of a batch whose keys this server knows. first: of the whole batch."""
        self._ends.fence(first)
        self._ends.settle(placed, self.mode is BypassMode.AWAY)

    def ended(self, publish: Publish, certain: bool, now_s: float) -> None:
        """See `base.Suppression`."""
        self._ends.ended(publish, certain, now_s, self.mode is BypassMode.AWAY)

    # ---- topics

    def open(self, scope: Scope) -> None:
        """Talk to a namespace as soon as Redis is there: its quarantine begins with its birth."""
        self._namespaces.open(scope)

    def shut(self, scope: Scope) -> None:
        """Its topic is compared here no more."""
        self._namespaces.shut(scope)

    def touch(self, scope: Scope) -> None:
        """Talk to a namespace soon."""
        self._namespaces.to_talk.add(scope)

    def is_told(self, scope: Scope) -> bool:
        """Whether Redis knows all that is to be told of a topic, or cannot be told now."""
        known = self._namespaces
        if self.mode is BypassMode.AWAY:
            return True
        if scope in known.to_talk or scope in known.to_announce or scope in known.to_drop:
            return False
        return self._outgoing is None or scope not in self._outgoing.scopes

    def _doubted(
        self, sent_s: float, call: SuppressionCall, reply: SuppressionReply, now_s: float
    ) -> set[Scope]:
        """The namespaces of a reply whose `unchanged` is not to be believed."""
        agreement, known = self._agreement, self._namespaces
        clock_s = agreement.clock_s
        if clock_s is None:
            clock_s = sent_s - reply.now / 1000
        away_s = clock_s - self._quarantine_s
        born_s = [away_s + state.opens_ms / 1000 for state in reply.states]
        if not known.doubted and now_s < agreement.until_s and min(born_s) >= agreement.quiet_s:
            return _NONE
        return known.judge(call.scopes, born_s, agreement, now_s)

    def _count(self, reply: SuppressionReply) -> None:
        if reply.crowded:
            self._meter.bypassed("crowded", reply.crowded)
        if reply.forgotten:
            self._meter.bypassed("redis_full", reply.forgotten)

    def _enter_lane(self, publish: Publish) -> None:
        if self._arrivals.join_in_lane(publish):
            self._in_flight.remove(publish.reserved.token)
            self._ends.refuse(publish)
        else:
            self._verdicts.publish(publish)

    def give_up(self, now_s: float) -> int:
        """Let those go on without Redis that have waited for too long, or refuse them; returns how
        many have.

        The oldest first, so no event overtakes another of its key.
        """
        outgoing = self._outgoing
        sent = outgoing.reserved if outgoing else []
        reserving = [one for one in sent if one.stage is _RESERVING]
        self._waits.left -= len(reserving)
        overdue = self._waits.overdue(now_s, len(reserving) + len(self._queue))
        self._waits.left += len(reserving)
        late = [one for one in reserving[:overdue] if not one.dropped]
        count = sum(self._bypass(one) for one in late)
        given_up = len(late)
        for _ in range(min(overdue - len(reserving), len(self._queue))):
            if not self._queue:  # the others passed meanwhile
                break
            self._waits.left += 1
            publish = self._queue.popleft()
            given_up += not publish.dropped
            count += self._go_past(publish)
        if count:
            self._meter.bypassed("redis_slow", count)
        return given_up

    def _let_pass(self, scope: Scope) -> None:
        """Let what waits of a topic go to its lanes: it is announced, so no later event waits.

        Even where redis_loss = "refuse": others know of these, as of all that pass. Events of other
        topics that came before these may be given up later, by redis.timeout_ms at most.
        """
        scope.asked = False
        outgoing = self._outgoing
        passing = [
            one
            for one in (outgoing.reserved if outgoing is not None else ())
            if one.stage is _RESERVING and one.reserved.scope is scope and not one.dropped
        ]
        queued = [one for one in self._queue if one.reserved.scope is scope]
        if queued:
            self._queue = deque(one for one in self._queue if one.reserved.scope is not scope)
            self._waits.left += len(queued)
        for publish in (*passing, *queued):
            if publish.dropped:
                self._drop_reserved(publish)
            else:
                self._publish_unreserved(publish)

    def hold(self, scope: Scope) -> None:
        """See `base.Suppression`: as if one event that passed were under way all the time."""
        scope = scope.latest()
        self._namespaces.announce(scope)
        scope.unreserved.count += 1
        scope.spooled.count += 1

    def release(self, scope: Scope) -> None:
        """See `base.Suppression`."""
        scope.unreserved.count -= 1
        scope.spooled.count -= 1

    @property
    def in_flight(self) -> int:
        """How many events have come and not ended."""
        return len(self._arrivals)

    @property
    def figures(self) -> dict[str, int]:
        """How many wait, are in flight, and are not settled yet."""
        return {
            "waiting": len(self._queue),
            "under_way": sum(1 for _ in self._in_flight),
            "unsettled": len(self._settlements),
        }

    @property
    def is_waited_for(self) -> bool:
        """Whether any event waits for Redis."""
        return bool(self._queue or (self._outgoing is not None and self._outgoing.reserved))

    def _put_back(self, publishes: list[Publish]) -> None:
        """They were not reserved: they wait again, before those that came later."""
        self._queue.extendleft(reversed(publishes))
        self._waits.left -= len(publishes)

    def _drop_reserved(self, publish: Publish) -> None:
        # A claim that was sent may have left a token.
        self._ends.drop_reserved(publish, publish.stage is _RESERVING)

    def _go_past(self, publish: Publish) -> bool:
        if publish.dropped:
            self._drop_reserved(publish)
            return False
        return self._bypass(publish)

    def _bypass_all(self, reason: str) -> None:
        # While this runs, what comes in joins the queue: an event never overtakes one of its key.
        self._draining, count = True, 0
        try:
            while self._queue:
                self._waits.left += 1
                count += self._go_past(self._queue.popleft())
        finally:
            self._draining = False
            if count:
                self._meter.bypassed(reason, count)

    def _bypass(self, publish: Publish) -> bool:
        """Publish without Redis, or refuse if the topic says so; tells whether it published.

        The claim may have been executed without our hearing of it. So its token is refused with
        the next settlements, behind the registration or settlement of a new one: else it would
        keep the key from being suppressed until it expires.
        """
        reservation = publish.reserved
        if reservation.refuse:
            self._drop_reserved(publish)
            publish.advance(Stage.ENDED)
            self._verdicts.refused(publish, _REFUSED)
            return False
        self._publish_unreserved(publish)
        return True

    def _publish_unreserved(self, publish: Publish) -> None:
        reservation = publish.reserved
        if publish.stage is _RESERVING:
            self._ends.refuse(publish)
        reservation.token = self._new_stem() + bytes(2)
        reservation.unreserved = self._owes = True
        self._in_flight.unregistered[reservation.token] = publish
        self._enter_lane(publish)
