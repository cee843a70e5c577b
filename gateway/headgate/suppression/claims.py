"""The state of suppression in one process: who waits, who is under way, what Redis must be told.

Synchronous and told the time; `suppressor.py` carries its calls to Redis and back.
"""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum

from headgate.backends.base import Verdicts
from headgate.core import suppression
from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Publish, Stage
from headgate.core.suppression import Call, Reply, Scope
from headgate.suppression.following import follow, may_follow
from headgate.suppression.options import SuppressionMeter, SuppressOptions
from headgate.suppression.outgoing import Flight, Forget, Waiting
from headgate.suppression.settlements import Settlements
from headgate.suppression.underway import UnderWay

_REFUSED = Failure(
    Reason.REDIS_UNAVAILABLE, "Redis is not available and this topic refuses to publish without it",
    retry_after_s=1,
)  # fmt: skip


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
        self._meter = meter
        self._new_token = new_token
        self._new_nonce = new_nonce
        self._latest: dict[bytes, Publish] = {}
        self._behind: dict[bytes, Publish] = {}  # token -> the equal event right before it
        self._queue: deque[Waiting] = deque()
        self._flight: Flight | None = None
        self._forgets: list[Forget] = []
        self._settlements = Settlements(options.blind_max)
        self._under_way = UnderWay(options.unknown_max)
        self._nonces: dict[Scope, bytes] = {}
        self._talked: dict[Scope, float] = {}
        self._talk: set[Scope] = set()
        self._drop: set[Scope] = set()
        self._rotated_s = 0.0
        self._draining = False
        self.mode = Mode.AWAY

    # ---- what ingest and the lanes say

    def reserve(self, publish: Publish) -> None:
        """See `base.Suppression`. The verdict may come before this returns."""
        entry = publish.scope.entry(publish.record.key)
        latest = self._latest.get(entry)
        publish.token = token = self._new_token()
        if latest is not None and latest.digest == publish.digest:
            if may_follow(publish, latest):
                follow(publish, latest)
                return
            if latest.stage is Stage.RESERVING and not publish.force:
                self._behind[token] = latest
        self._latest[entry] = publish
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
            entry = self._leave(publish)
            if base_offset < 0:
                self._under_way.leave_unknown(publish, now_s + self._life_s)
                continue
            self._under_way.remove(token)
            if offset <= publish.floor:
                self._drop.add(scope)
            if publish.blind and self.mode is Mode.AWAY:
                self._settlements.add_blind(entry, publish, offset)
                continue
            pending = self._settlements.of(scope)
            operation = suppression.settle(token, digest, offset)
            pending[entry] = pending.get(entry, b"") + operation

    def ended(self, publish: Publish, certain: bool, now_s: float) -> None:
        """See `base.Suppression`."""
        if publish.digest is None or publish.leader is not None:
            return
        entry = self._leave(publish)
        if not certain:
            self._under_way.leave_unknown(publish, now_s + self._life_s)
            return
        self._under_way.remove(publish.token)
        if not (publish.blind and self.mode is Mode.AWAY):
            self._settlements.add(publish.scope, entry, suppression.refused(publish.token))

    def forget(self, request: Forget) -> None:
        """Take a request to forget; its future ends with the call that carries it."""
        self._forgets.append(request)

    def scope_changed(self, old: Scope, new: Scope) -> None:
        """The topic is another now: what is under way may land in it, so register it there."""
        moved = [publish for publish in self._latest.values() if publish.scope is old]
        moved += [publish for publish in self._under_way if publish.scope is old]
        waiting = [*self._queue, *(self._flight.reserved if self._flight else ())]
        moved += [publish for _, publish in waiting if publish.scope is old]
        self._latest = {
            name: publish for name, publish in self._latest.items() if publish.scope is not old
        }
        for publish in moved:
            publish.scope, publish.floor = new, -1
        for publish in moved:
            if publish.leader is None and publish.stage < Stage.ENDED:
                self._latest[_entry(publish)] = publish
        self._queue = deque((_entry(publish), publish) for _, publish in self._queue)
        self._under_way.register_again([new])
        self._nonces.pop(old, None)
        self._talked.pop(old, None)

    # ---- what the connection says

    def next_flight(self, now_s: float) -> Flight | None:
        """Pack what waits. Registrations come before any claim, settlements before theirs."""
        flight = Flight(self._options.max_keys_per_call)
        while self._drop:
            flight.drop(self._drop.pop())
        while self._talk:
            flight.talk_to(self._talk.pop())
        unregistered = self._under_way.unregistered
        while unregistered and flight.room > 0:
            token, publish = unregistered.popitem()
            flight.add(publish.scope, _entry(publish), suppression.register(token))
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
        doubtful = self._compare_nonces(call.scopes, reply.nonces, now_s)
        for done in flight.forgets:
            if not done.done():
                done.set_result(None)
        for (entry, publish), verdict in zip(flight.reserved, reply.verdicts, strict=True):
            if publish.dropped or publish.stage is not Stage.RESERVING:
                self._leave(publish)  # it ended for its client while Redis was asked
                if verdict < 0:
                    refused = suppression.refused(publish.token)
                    self._settlements.add(publish.scope, entry, refused)
            elif verdict < 0:
                publish.floor = suppression.floor_of(verdict)
                self._enter_lane(entry, publish)
            elif publish.scope in doubtful or publish.scope not in call.scopes:
                self._bypass(entry, publish)
            else:
                publish.stage = Stage.ENDED
                if self._latest.get(entry) is publish:
                    del self._latest[entry]
                if self._behind:
                    self._behind.pop(publish.token, None)
                self._verdicts.unchanged(publish, verdict)

    def lost(self, reason: str) -> None:
        """Nothing is known of the call on its way, nor whether Redis still is the same."""
        flight, self._flight = self._flight, None
        self.mode = Mode.AWAY
        self._under_way.register_again()
        if flight is not None:
            for scope, entry, operation in flight.settled:
                self._settlements.add(scope, entry, operation)
            self._drop |= flight.dropped
            self._queue.extendleft(reversed(flight.reserved))
        self._bypass_all(reason)
        self._shed()

    def catching_up(self) -> None:
        """Connected: tell Redis what it missed before anything is claimed."""
        self.mode = Mode.CATCHING_UP
        self._settlements.reconnected()

    @property
    def is_behind(self) -> bool:
        """Whether Redis misses more than one call can carry beside reservations."""
        return len(self._under_way.unregistered) + len(self._settlements) > 100

    def tick(self, now_s: float) -> bool:
        """Renew tokens, talk to namespaces in use; returns whether there is something to send."""
        if now_s - self._rotated_s >= self._life_s / 6:
            self._rotated_s = now_s
            self._under_way.rotate(now_s)
        if len(self._under_way):
            overdue_s = now_s - self._options.quarantine_ms / 6000
            for scope in self._under_way.scopes():
                if self._talked.get(scope, 0.0) <= overdue_s:
                    self._talk.add(scope)
        if self.mode is Mode.AWAY:
            self._shed()
        return bool(self._talk or self._under_way.unregistered)

    @property
    def figures(self) -> dict[str, int]:
        """How many wait, are under way, and are not settled yet."""
        return {
            "waiting": len(self._queue),
            "under_way": len(self._under_way),
            "unsettled": len(self._settlements),
        }

    # ---- steps

    @property
    def _life_s(self) -> float:
        return self._options.life_ms / 1000

    def _leave(self, publish: Publish) -> bytes:
        entry = _entry(publish)
        if self._latest.get(entry) is publish:
            del self._latest[entry]
        return entry

    def _enter_lane(self, entry: bytes, publish: Publish) -> None:
        if self._behind:
            latest = self._behind.pop(publish.token, None)
            if latest is not None:
                latest = latest.leader or latest
                if latest.stage is Stage.LANE and may_follow(publish, latest):
                    self._join_in_lane(entry, publish, latest)
                    return
        self._under_way.add(publish)
        self._verdicts.publish(publish)

    def _join_in_lane(self, entry: bytes, publish: Publish, leader: Publish) -> None:
        if self._latest.get(entry) is publish:
            self._latest[entry] = leader
        follow(publish, leader)
        if not publish.blind:
            self._settlements.add(publish.scope, entry, suppression.refused(publish.token))

    def _bypass_all(self, reason: str) -> None:
        # While this runs, what comes in joins the queue: an event never overtakes one of its key.
        self._draining, count = True, 0
        while self._queue:
            entry, publish = self._queue.popleft()
            if publish.dropped or publish.stage not in (Stage.QUEUED, Stage.RESERVING):
                self._leave(publish)
                continue
            self._bypass(entry, publish)
            count += 1
        self._draining = False
        if count:
            self._meter.bypassed(reason, count)

    def _bypass(self, entry: bytes, publish: Publish) -> None:
        """Publish without Redis, or refuse if the topic says so.

        The claim may have been executed without our hearing of it: then SETTLE or the refusal
        finds its token, and until then it only keeps others from being suppressed.
        """
        if publish.refuse:
            if publish.stage is Stage.RESERVING:
                self._settlements.add(publish.scope, entry, suppression.refused(publish.token))
            publish.stage = Stage.ENDED
            self._behind.pop(publish.token, None)
            self._leave(publish)
            self._verdicts.refused(publish, _REFUSED)
            return
        publish.blind = True
        self._under_way.unregistered[publish.token] = publish
        self._enter_lane(entry, publish)
        if publish.leader is not None:
            self._under_way.unregistered.pop(publish.token, None)

    def _compare_nonces(
        self, scopes: Sequence[Scope], nonces: Sequence[bytes], now_s: float
    ) -> set[Scope]:
        """Register again where Redis lost its state; there, no `unchanged` is to be trusted."""
        doubtful = set()
        for scope, nonce in zip(scopes, nonces, strict=True):
            self._talked[scope] = now_s
            known = self._nonces.get(scope)
            if known != nonce:
                self._nonces[scope] = nonce
                if known is not None:
                    doubtful.add(scope)
        if doubtful:
            self._under_way.register_again(doubtful)
        return doubtful

    def _shed(self) -> None:
        self._drop.update(self._settlements.overflowed())


def _entry(publish: Publish) -> bytes:
    name: bytes = publish.scope.entry(publish.record.key)
    return name
