"""The state of suppression in one process: who waits, who is in flight, what Redis must be told.

Synchronous and told the time; `suppressor.py` carries its calls to Redis and back.
"""

from collections.abc import Callable
from typing import Final

from headgate.backends.base import Verdicts
from headgate.backends.redis.errors import StoreError
from headgate.core.publish import Publish, Stage
from headgate.core.suppression import protocol
from headgate.core.suppression.layout import Agreement
from headgate.core.suppression.protocol import Scope, SuppressionCall, SuppressionReply
from headgate.core.suppression.states import TopicSuppression
from headgate.suppression.bypass import Bypass, BypassMode
from headgate.suppression.growth import Grow, behind, grow_alone, place_again
from headgate.suppression.options import SuppressionMeter, SuppressOptions
from headgate.suppression.outgoing import Forget, OutgoingCall, finish
from headgate.suppression.states import states_of

# Looking a member up in an Enum class costs 0.1 us in Python 3.11.
_AWAY: Final = BypassMode.AWAY
_READY: Final = BypassMode.READY
_QUEUED: Final = Stage.QUEUED
_RESERVING: Final = Stage.RESERVING
_ENDED: Final = Stage.ENDED


class Claims(Bypass):
    """See the module. new_stem: see `Bypass`.  new_nonce: 16 bytes that were never used before.

    grow: told of a topic that has more partitions than this process knew.
    """

    def __init__(
        self,
        verdicts: Verdicts,
        options: SuppressOptions,
        meter: SuppressionMeter,
        new_stem: Callable[[], bytes],
        new_nonce: Callable[[], bytes],
        grow: Grow = grow_alone,
        agreement: Agreement | None = None,
    ) -> None:
        super().__init__(verdicts, options, meter, new_stem, agreement or Agreement.granted())
        self._options = options
        self._spans = options.spans
        self._token_ttl_s = options.token_ttl_ms / 1000
        self._new_nonce = new_nonce
        self._forgets: list[Forget] = []
        self._outdated: set[Publish] = set()
        self._rotated_s = 0.0
        self._tell_growth = grow

    # ---- what ingest and the lanes say

    def reserve(self, publish: Publish) -> None:
        """See `base.Suppression`. The verdict may come before this returns."""
        reservation = publish.reserved
        scope = reservation.scope = reservation.scope.latest()
        scope.asked = True
        if reservation.partitions != scope.partitions:
            place_again(publish, scope)
        key = publish.record.key
        assert key is not None  # what has none is published without being asked for
        reservation.entry = entry = scope.entry(key)
        latest = self._arrivals.latest.setdefault(entry, publish)
        if latest is not publish and self._arrivals.arrive(publish, latest):
            return
        publish.advance(_QUEUED)
        self._queue.append(publish)
        if self.mode is not _READY and not self._draining:
            self._bypass_all("breaker_open")

    def forget(self, request: Forget) -> None:
        """Take a request to forget; its future ends with the call that carries it."""
        self._forgets.append(request)

    def drop(self, scope: Scope) -> None:
        """Delete the namespace's incarnation before anything is reserved in it."""
        self._namespaces.to_drop.add(scope)
        self._owes = True

    def is_settled(self) -> bool:
        """Whether Redis knows of every unreserved publish, so that others may rely on it."""
        if self._owes and self.mode is _READY and self._outgoing is None:
            waits = self._settlements, self._in_flight.unregistered, self._namespaces.to_drop
            self._owes = any(waits)
        return not self._owes

    def passes(self, scope: Scope, count: int, now_s: float) -> bool:
        """See `base.Suppression`. Only while it is announced, or others would not know of them.

        What was asked for before goes first, in its order: so nothing overtakes an event of its
        key, and a topic that is never idle passes all the same.
        """
        scope = scope.latest()
        if now_s >= scope.free_until_s:
            self._namespaces.announce(scope)
            if self.mode is not _AWAY:
                return False
        if scope.asked and self.mode is not _AWAY:  # while it is away, nothing waits
            self._let_pass(scope)
        self._namespaces.passing.add(scope)  # `renew` may have dropped it before the first passed
        scope.passed_s = now_s
        scope.unreserved.count += count
        return True

    def rule_changed(self, scope: Scope) -> None:
        """The topic's events get their keys by another rule: what is in flight has keys of the
        former one. No token of the present key stands for it, so it is announced until it ends.
        """
        self.drop(scope)
        in_flight = *self._arrivals, *self._in_flight
        self._outdated.update(one for one in in_flight if one.reserved.scope is scope)
        self._namespaces.announce(scope)

    def grew(self, scope: Scope) -> None:
        """The topic has more partitions: place again what waits, for nothing of it is reserved."""
        for publish in self._queue:
            if publish.reserved.scope is scope:
                place_again(publish, scope)

    def scope_changed(self, old: Scope, new: Scope) -> None:
        """The topic is another now: what is in flight may land in it, so register it there."""
        new.passed_s, new.unreserved, old.successor = old.passed_s, old.unreserved, new
        new.spooled, new.asked = old.spooled, old.asked
        if old in self._namespaces.passing:
            self._namespaces.announce(new)
        if old in self._namespaces.opened:
            self._namespaces.open(new)
        for publish in {*self._arrivals, *self._in_flight}:
            reservation = publish.reserved
            if reservation.scope is old:
                reservation.scope, reservation.floor = new, -1
                reservation.entry = new.entry(publish.record.key)
                is_waiting = publish.stage is _QUEUED or publish.stage is _RESERVING
                if is_waiting and reservation.partitions != new.partitions:
                    place_again(publish, new)
        self._arrivals.rename()
        self._in_flight.register_again({new})
        self._namespaces.forget(old)

    # ---- what the connection says

    def next_call(self, now_s: float) -> OutgoingCall | None:
        """Pack what waits. Registrations come before any claim, settlements before theirs."""
        options, known = self._options, self._namespaces
        outgoing = OutgoingCall(options.max_keys_per_call, options.max_operations_per_call, now_s)
        outgoing.address(known.to_drop, known.to_announce, known.to_talk)
        unregistered = self._in_flight.unregistered
        while unregistered and outgoing.room > 0:
            found = unregistered.popitem()[1].reserved
            outgoing.add(found.scope, found.entry, protocol.register(found.token))
        while self._forgets and outgoing.room > 0:
            outgoing.forget(self._forgets.pop(0))
        # What is left to drop comes before any claim.
        ready = self.mode is _READY and not (unregistered or known.to_drop) and bool(self._queue)
        if self._settlements:
            outgoing.settle(self._settlements, 0.5 if ready else 1.0)
        if ready:
            doubts = bool(known.doubted) or now_s >= self._agreement.until_s
            outgoing.reserve(self._queue, self._settlements, self._new_stem(), force=doubts)
            self._waits.left += len(outgoing.reserved)
        self._outgoing = outgoing if outgoing else None
        return self._outgoing

    def call(self, outgoing: OutgoingCall) -> SuppressionCall:
        """Return its call."""
        return outgoing.call(self._spans, self._new_nonce())

    def answered(
        self, outgoing: OutgoingCall, call: SuppressionCall, reply: SuppressionReply, now_s: float
    ) -> None:
        """The script's answer is here: verdicts in order of arrival."""
        changed = self._namespaces.answered(call.scopes, reply.states, reply.now, now_s)
        doubted = self._doubted(outgoing.sent_s, call, reply, now_s)
        if outgoing.announced:
            lease_s = self._spans.lease / 1000
            self._namespaces.announced(outgoing.announced, outgoing.sent_s + lease_s)
        if changed:  # Redis lost its state, or somebody began a new incarnation
            self._in_flight.register_again(changed)
            self._namespaces.open_again()
        self._count(reply)
        outgoing.finish_forgets(None)
        unchanged, publish_it = self._verdicts.unchanged, self._verdicts.publish
        arrivals, valid = self._arrivals, set(call.scopes) - changed
        late, is_behind = list[Publish](), behind(call, reply, self._grow)
        doubtful = set[bytes]()  # entries whose events ask again
        for publish, verdict in zip(outgoing.reserved, reply.verdicts, strict=True):
            if publish.stage is not _RESERVING:  # it waited for too long and went on without
                continue
            reservation = publish.reserved
            if publish.dropped:  # it ended for its client while Redis was asked
                self._drop_reserved(publish)
            elif reservation.scope in is_behind:
                late.append(publish)
            elif reservation.scope not in valid:
                # Told under another incarnation than the one that knows what is in flight here,
                # or for a topic that is another now: good for nothing. What may not go past Redis
                # asks again, and so does what is behind it.
                if reservation.refuse or reservation.entry in doubtful:
                    self._ask_again(publish, verdict, doubtful, late)
                else:
                    self._bypass(publish)
            elif (verdict >= 0 and doubted and reservation.scope in doubted) or (
                doubtful and reservation.entry in doubtful
            ):
                self._ask_again(publish, verdict, doubtful, late)
            elif verdict >= 0:
                publish.advance(_ENDED)
                latest = arrivals.latest.pop(reservation.entry, None)
                if latest is not publish or arrivals.behind:
                    arrivals.left(publish, latest)
                unchanged(publish, verdict)
            else:
                reservation.floor = -2 - verdict  # protocol.floor_of, without the call
                if arrivals.behind:
                    self._enter_lane(publish)
                else:
                    publish_it(publish)
        # One that is in its lane by now passed meanwhile.
        late = [publish for publish in late if publish.stage is _RESERVING]
        for publish in late:
            publish.advance(_QUEUED)
            place_again(publish, publish.reserved.scope)
        self._put_back(late)
        self._outgoing = None  # not before: what a failure leaves here, `lost` puts back

    def _ask_again(
        self, publish: Publish, verdict: int, doubtful: set[bytes], late: list[Publish]
    ) -> None:
        """Put an event among those that wait for another call, where no later one of its key may
        overtake it."""
        if verdict < 0:  # its claim left a token, and it gets another one
            self._ends.refuse(publish)
        doubtful.add(publish.reserved.entry)
        late.append(publish)

    def _grow(self, scope: Scope, count: int) -> None:
        self._tell_growth(scope, count)
        if count > scope.partitions:  # whoever listens knows of no such topic (any more)
            scope.partitions = count
            self.grew(scope)

    def lost(self, error: StoreError) -> None:
        """Nothing is known of the call on its way, nor whether Redis still is the same."""
        outgoing, self._outgoing = self._outgoing, None
        self.mode = BypassMode.AWAY
        self._in_flight.register_again()
        if outgoing is not None:
            outgoing.finish_forgets(error)
            for scope, taken in outgoing.settled:
                for entry, operation in taken.items():
                    self._settlements.add(scope, entry, operation)
            self._namespaces.to_drop |= outgoing.dropped
            self._namespaces.to_announce |= outgoing.announced
            self._put_back([one for one in outgoing.reserved if one.stage is _RESERVING])
        self.closed(error)
        self._bypass_all(error.reason)
        self._shed()

    def closed(self, error: StoreError) -> None:
        """No call will carry what is left to forget."""
        if self._outgoing is not None:
            self._outgoing.finish_forgets(error)
        finish((done for _, _, done in self._forgets), error)
        self._forgets.clear()

    def catching_up(self) -> None:
        """Connected: tell Redis what it missed before anything is claimed."""
        self.mode = BypassMode.CATCHING_UP
        self._settlements.reconnected()
        self._namespaces.open_again()

    @property
    def waiting(self) -> int:
        """How many reservations wait to be sent."""
        return len(self._queue)

    @property
    def has_news(self) -> bool:
        """Whether there is anything to tell Redis."""
        known = self._namespaces
        planned = known.to_talk or known.to_drop or known.to_announce or self._forgets
        return bool(planned or self._queue or self._settlements or self._in_flight.unregistered)

    @property
    def is_behind(self) -> bool:
        """Whether Redis misses more than one call can carry beside reservations."""
        missing = len(self._in_flight.unregistered) + len(self._settlements)
        return bool(self._namespaces.to_announce) or missing > self._options.max_keys_per_call // 2

    def tick(self, now_s: float) -> bool:
        """Renew tokens, talk to namespaces in use; returns whether there is something to send."""
        if now_s - self._rotated_s >= self._token_ttl_s / 6:
            self._rotated_s = now_s
            self._in_flight.rotate(now_s, self._token_ttl_s)
        lease_s = self._spans.lease / 1000
        if self._outdated:
            self._outdated &= {*self._arrivals, *self._in_flight}
        self._namespaces.renew(now_s, lease_s, {one.reserved.scope for one in self._outdated})
        overdue_s = now_s - self._options.quarantine_ms / 6000
        self._namespaces.talk_to(self._in_flight.scopes(), overdue_s)
        if self._options.touches_opened:
            self._namespaces.talk_to(self._namespaces.opened, overdue_s)
        self._namespaces.check_doubted(now_s)
        self._namespaces.stay_in_touch(now_s)
        if self.mode is BypassMode.AWAY:
            self._shed()
        known = self._namespaces
        return bool(known.to_talk or known.to_announce or self._in_flight.unregistered)

    def states(self, now_s: float) -> dict[str, TopicSuppression]:
        """Of each topic that is compared here, whether it is suppressed now."""
        doubts = now_s >= self._agreement.until_s
        return states_of(self._namespaces, self.mode is not _READY, now_s, doubts)

    def _shed(self) -> None:
        self._namespaces.to_drop.update(self._settlements.overflowed())
