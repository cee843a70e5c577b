"""The state of suppression in one process: who waits, who is under way, what Redis must be told.

Synchronous and told the time; `suppressor.py` carries its calls to Redis and back.
"""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum

from headgate.backends.base import Verdicts
from headgate.backends.suppression_store import StoreError
from headgate.core import suppression
from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Publish, Stage
from headgate.core.suppression import Call, Reply, Scope
from headgate.suppression.arrivals import Arrivals
from headgate.suppression.namespaces import Namespaces
from headgate.suppression.options import SuppressionMeter, SuppressOptions
from headgate.suppression.outgoing import Flight, Forget, Waiting
from headgate.suppression.settlements import Settlements
from headgate.suppression.underway import UnderWay

_REFUSED = Failure(
    Reason.REDIS_UNAVAILABLE,
    "Redis is not available, and without it this topic publishes nothing",
    retry_after_s=1,
)


class Mode(Enum):
    """AWAY: events go past Redis. CATCHING_UP: they still do, while Redis learns what it missed.
    READY: events are reserved."""

    AWAY = 0
    CATCHING_UP = 1
    READY = 2


class Claims:
    """See the module. new_token, new_nonce: 12 and 16 bytes that were never used before."""

    def __init__(
        self,
        verdicts: Verdicts,
        options: SuppressOptions,
        meter: SuppressionMeter,
        new_token: Callable[[], bytes],
        new_nonce: Callable[[], bytes],
    ) -> None:
        self._verdicts = verdicts
        self._options = options
        self._limits = options.limits
        self._life_s = options.life_ms / 1000
        self._meter = meter
        self._new_token = new_token
        self._new_nonce = new_nonce
        self._arrivals = Arrivals()
        self._queue: deque[Waiting] = deque()
        self._flight: Flight | None = None
        self._forgets: list[Forget] = []
        self._settlements = Settlements(options.blind_max)
        self._under_way = UnderWay(options.unknown_max)
        self._namespaces = Namespaces()
        self._rotated_s = 0.0
        self._draining = False
        self.mode = Mode.AWAY

    # ---- what ingest and the lanes say

    def reserve(self, publish: Publish) -> None:
        """See `base.Suppression`. The verdict may come before this returns."""
        entry = publish.scope.entry(publish.record.key)
        publish.token = self._new_token()
        if self._arrivals.arrive(entry, publish):
            return
        publish.stage = Stage.QUEUED
        self._queue.append((entry, publish))
        if self.mode is not Mode.READY and not self._draining:
            self._bypass_all("breaker_open")

    def acknowledged(self, batch: Sequence[Publish], base_offset: int, now_s: float) -> None:
        """See `base.Suppression`. An offset at or below the floor: the topic was made anew.

        The protocol says "an acknowledged offset <= the entry's o"; with racing writers that
        holds for every slower one, so the highest offset *when it was reserved* decides, which
        lay in the log before this record did.
        """
        for offset, publish in enumerate(batch, base_offset):
            digest = publish.digest
            if digest is None:
                continue
            scope, token = publish.scope, publish.token
            entry = scope.entry(publish.record.key)
            self._arrivals.leave(entry, publish)
            if base_offset < 0:
                self._under_way.leave_unknown(publish, now_s + self._life_s)
                continue
            self._under_way.remove(token)
            if offset <= publish.floor:
                self._namespaces.to_drop.add(scope)
            if publish.blind and self.mode is Mode.AWAY:
                self._settlements.add_blind(entry, publish, offset)
            else:
                operation = suppression.settle(token, digest, offset)
                self._settlements.add(scope, entry, operation)

    def ended(self, publish: Publish, certain: bool, now_s: float) -> None:
        """See `base.Suppression`."""
        if publish.digest is None or publish.leader is not None:
            return
        self._arrivals.leave(_entry(publish), publish)
        if not certain:
            self._under_way.leave_unknown(publish, now_s + self._life_s)
            return
        self._under_way.remove(publish.token)
        if not (publish.blind and self.mode is Mode.AWAY):
            self._refuse(publish)

    def forget(self, request: Forget) -> None:
        """Take a request to forget; its future ends with the call that carries it."""
        self._forgets.append(request)

    def scope_changed(self, old: Scope, new: Scope) -> None:
        """The topic is another now: what is under way may land in it, so register it there."""
        waiting = [*self._queue, *(self._flight.reserved if self._flight else ())]
        moved = {id(publish): publish for _, publish in waiting if publish.scope is old}
        for publish in (*self._arrivals.of(old), *self._under_way):
            if publish.scope is old:
                moved[id(publish)] = publish
        for publish in moved.values():
            publish.scope, publish.floor = new, -1
        self._arrivals.rename()
        self._queue = deque((_entry(publish), publish) for _, publish in self._queue)
        self._under_way.register_again({new})
        self._namespaces.forget(old)

    # ---- what the connection says

    def next_flight(self, now_s: float) -> Flight | None:
        """Pack what waits. Registrations come before any claim, settlements before theirs."""
        flight = Flight(self._options.max_keys_per_call)
        flight.address(self._namespaces.to_drop, self._namespaces.to_talk)
        unregistered = self._under_way.unregistered
        while unregistered and flight.room > 0:
            _, publish = unregistered.popitem()
            flight.add(publish.scope, _entry(publish), suppression.register(publish.token))
        while self._forgets and flight.room > 0:
            flight.forget(self._forgets.pop(0))
        ready = self.mode is Mode.READY and not unregistered and bool(self._queue)
        if self._settlements:
            share = self._options.max_keys_per_call // 2 if ready else flight.room
            flight.settle(self._settlements, share)
        if ready:
            flight.reserve(self._queue, self._settlements)
        self._flight = flight if flight else None
        return self._flight

    def call(self, flight: Flight) -> Call:
        """Return the call of a flight."""
        return flight.call(self._limits, self._new_nonce())

    def answered(self, flight: Flight, call: Call, reply: Reply, now_s: float) -> None:
        """The script's answer is here: verdicts in order of arrival."""
        self._flight = None
        changed = self._namespaces.answered(call.scopes, reply.nonces, now_s)
        if changed:  # Redis lost its state
            self._under_way.register_again(changed)
        flight.finish_forgets(None)
        for (entry, publish), verdict in zip(flight.reserved, reply.verdicts, strict=True):
            if publish.dropped:  # it ended for its client while Redis was asked
                self._drop_reserved(publish)
            elif publish.scope in changed or publish.scope not in call.scopes:
                # Told under another incarnation than the one that knows what is under way here,
                # or for a topic that is another now: good for nothing.
                self._bypass(publish)
            elif verdict < 0:
                publish.floor = suppression.floor_of(verdict)
                self._enter_lane(entry, publish)
            else:
                publish.stage = Stage.ENDED
                self._arrivals.leave(entry, publish)
                self._verdicts.unchanged(publish, verdict)

    def lost(self, error: StoreError) -> None:
        """Nothing is known of the call on its way, nor whether Redis still is the same."""
        flight, self._flight = self._flight, None
        self.mode = Mode.AWAY
        self._under_way.register_again()
        if flight is not None:
            flight.finish_forgets(error)
            for scope, entry, operation in flight.settled:
                self._settlements.add(scope, entry, operation)
            self._namespaces.to_drop |= flight.dropped
            self._queue.extendleft(reversed(flight.reserved))
        for _, _, done in self._forgets:
            if not done.done():
                done.set_exception(error)
        self._forgets.clear()
        self._bypass_all(error.reason)
        self._shed()

    def catching_up(self) -> None:
        """Connected: tell Redis what it missed before anything is claimed."""
        self.mode = Mode.CATCHING_UP
        self._settlements.reconnected()

    @property
    def is_behind(self) -> bool:
        """Whether Redis misses more than one call can carry beside reservations."""
        missing = len(self._under_way.unregistered) + len(self._settlements)
        return missing > self._options.max_keys_per_call // 2

    def tick(self, now_s: float) -> bool:
        """Renew tokens, talk to namespaces in use; returns whether there is something to send."""
        if now_s - self._rotated_s >= self._life_s / 6:
            self._rotated_s = now_s
            self._under_way.rotate(now_s)
        overdue_s = now_s - self._options.quarantine_ms / 6000
        self._namespaces.talk_to(self._under_way.scopes(), overdue_s)
        self._namespaces.stay_in_touch(now_s)
        if self.mode is Mode.AWAY:
            self._shed()
        return bool(self._namespaces.to_talk or self._under_way.unregistered)

    @property
    def figures(self) -> dict[str, int]:
        """How many wait, are under way, and are not settled yet."""
        return {
            "waiting": len(self._queue),
            "under_way": len(self._under_way),
            "unsettled": len(self._settlements),
        }

    # ---- steps

    def _enter_lane(self, entry: bytes, publish: Publish) -> None:
        if self._arrivals.join_in_lane(entry, publish):
            self._under_way.remove(publish.token)
            self._refuse(publish)
            return
        self._under_way.add(publish)
        self._verdicts.publish(publish)

    def _drop_reserved(self, publish: Publish) -> None:
        self._arrivals.leave(_entry(publish), publish)
        if publish.stage is Stage.RESERVING:  # the claim may have left a token
            self._refuse(publish)

    def _refuse(self, publish: Publish) -> None:
        operation = suppression.refused(publish.token)
        self._settlements.add(publish.scope, _entry(publish), operation)

    def _bypass_all(self, reason: str) -> None:
        # While this runs, what comes in joins the queue: an event never overtakes one of its key.
        self._draining, count = True, 0
        while self._queue:
            _, publish = self._queue.popleft()
            if publish.dropped:
                self._drop_reserved(publish)
            else:
                count += self._bypass(publish)
        self._draining = False
        if count:
            self._meter.bypassed(reason, count)

    def _bypass(self, publish: Publish) -> bool:
        """Publish without Redis, or refuse if the topic says so; tells whether it published.

        The claim may have been executed without our hearing of it. So its token is refused with
        the next settlements, behind the registration or settlement of a new one: else it would
        keep the key from being suppressed for a life.
        """
        if publish.refuse:
            self._drop_reserved(publish)
            publish.stage = Stage.ENDED
            self._verdicts.refused(publish, _REFUSED)
            return False
        if publish.stage is Stage.RESERVING:
            self._refuse(publish)
            token = self._new_token()
            self._arrivals.rename_token(publish.token, token)
            publish.token = token
        publish.blind = True
        self._under_way.unregistered[publish.token] = publish
        self._enter_lane(_entry(publish), publish)
        return True

    def _shed(self) -> None:
        self._namespaces.to_drop.update(self._settlements.overflowed())


def _entry(publish: Publish) -> bytes:
    name: bytes = publish.scope.entry(publish.record.key)
    return name
