"""The state of suppression in one process: who waits, who is under way, what Redis must be told.

Synchronous and told the time; `suppressor.py` carries its calls to Redis and back.
"""

from collections.abc import Callable, Sequence
from typing import Final

from headgate.backends.base import Verdicts
from headgate.backends.suppression_store import StoreError
from headgate.core import suppression
from headgate.core.publish import Publish, Stage
from headgate.core.suppression import SETTLE, Call, Reply, Scope, pack_settlement
from headgate.suppression.bypass import Bypass, Mode
from headgate.suppression.namespaces import Namespaces
from headgate.suppression.options import SuppressionMeter, SuppressOptions
from headgate.suppression.outgoing import Flight, Forget

# Looking a member up in an Enum class costs 0.1 us in Python 3.11.
_AWAY: Final = Mode.AWAY
_READY: Final = Mode.READY
_QUEUED: Final = Stage.QUEUED
_ENDED: Final = Stage.ENDED


class Claims(Bypass):
    """See the module. new_stem: see `Bypass`.  new_nonce: 16 bytes that were never used before."""

    def __init__(
        self,
        verdicts: Verdicts,
        options: SuppressOptions,
        meter: SuppressionMeter,
        new_stem: Callable[[], bytes],
        new_nonce: Callable[[], bytes],
    ) -> None:
        super().__init__(verdicts, options, meter, new_stem)
        self._options = options
        self._limits = options.limits
        self._life_s = options.life_ms / 1000
        self._new_nonce = new_nonce
        self._flight: Flight | None = None
        self._forgets: list[Forget] = []
        self._namespaces = Namespaces()
        self._rotated_s = 0.0

    # ---- what ingest and the lanes say

    def reserve(self, publish: Publish) -> None:
        """See `base.Suppression`. The verdict may come before this returns."""
        scope: Scope = publish.scope  # so that the compiler knows what is called
        key = publish.record.key
        assert key is not None  # what has none is published without being asked for
        publish.entry = entry = scope.entry(key)
        latest = self._arrivals.latest.setdefault(entry, publish)
        if latest is not publish and self._arrivals.arrive(publish, latest):
            return
        publish.stage = _QUEUED
        self._queue.append(publish)
        if self.mode is not _READY and not self._draining:
            self._bypass_all("breaker_open")

    def acknowledged(self, batch: Sequence[Publish], base_offset: int, now_s: float) -> None:
        """See `base.Suppression`. An offset at or below the floor: the topic was made anew.

        The protocol says "an acknowledged offset <= the entry's o"; with racing writers that
        holds for every slower one, so the highest offset *when it was reserved* decides, which
        lay in the log before this record did.
        """
        if base_offset < 0:
            for publish in batch:
                self.ended(publish, False, now_s)
            return
        away, under_way, arrivals = self.mode is _AWAY, self._under_way, self._arrivals
        scope, pending = None, dict[bytes, bytes]()
        for offset, publish in enumerate(batch, base_offset):
            digest = publish.digest
            if not digest:
                if digest is not None:
                    self._settle_placed(publish)
                continue
            token, entry = publish.token, publish.entry
            latest = arrivals.latest.pop(entry, None)
            if latest is not publish:
                arrivals.left(publish, latest)
            if under_way.unregistered or under_way.unknown:
                under_way.remove(token)
            if offset <= publish.floor:
                self._namespaces.to_drop.add(publish.scope)
            if away and publish.blind:
                self._settlements.add_blind(publish, offset)
                continue
            if publish.scope is not scope:
                scope = publish.scope
                pending = self._settlements.of(scope)
            operation = pack_settlement(SETTLE, token, digest, offset)
            pending[entry] = pending[entry] + operation if entry in pending else operation

    def _settle_placed(self, publish: Publish) -> None:
        """A record in a partition of its client's choice: its offset is none of the key's order.

        Its token was there until now, so nothing of the key was unchanged meanwhile; CLEAR drops
        the digest, and the trust in whatever was reserved before this record was in the log.
        """
        self._arrivals.leave(publish)
        self._under_way.remove(publish.token)
        operation = suppression.CLEAR + suppression.refused(publish.token)
        self._settlements.add(publish.scope, publish.entry, operation)

    def ended(self, publish: Publish, certain: bool, now_s: float) -> None:
        """See `base.Suppression`."""
        if publish.digest is None or publish.leader is not None:
            return
        self._arrivals.leave(publish)
        if not certain:
            self._under_way.leave_unknown(publish, now_s + self._life_s)
            return
        self._under_way.remove(publish.token)
        if not (publish.blind and self.mode is Mode.AWAY):
            self._refuse(publish)

    def forget(self, request: Forget) -> None:
        """Take a request to forget; its future ends with the call that carries it."""
        self._forgets.append(request)

    def drop(self, scope: Scope) -> None:
        """Delete the namespace's incarnation before anything is reserved in it."""
        self._namespaces.to_drop.add(scope)
        self._owes = True

    def is_settled(self) -> bool:
        """Whether Redis knows of every blind publish, so that others may rely on what it says."""
        if self._owes and self.mode is _READY and self._flight is None:
            left = self._settlements or self._under_way.unregistered or self._namespaces.to_drop
            self._owes = bool(left)
        return not self._owes

    def open(self, scope: Scope) -> None:
        """Talk to a namespace as soon as Redis is there: its quarantine begins with its birth."""
        self._namespaces.open(scope)

    def scope_changed(self, old: Scope, new: Scope) -> None:
        """The topic is another now: what is under way may land in it, so register it there."""
        for publish in {*self._arrivals, *self._under_way}:
            if publish.scope is old:
                publish.scope, publish.floor = new, -1
                publish.entry = new.entry(publish.record.key)
        self._arrivals.rename()
        self._under_way.register_again({new})
        self._namespaces.forget(old)
        self._namespaces.open(new)

    # ---- what the connection says

    def next_flight(self, now_s: float) -> Flight | None:
        """Pack what waits. Registrations come before any claim, settlements before theirs."""
        flight = Flight(self._options.max_keys_per_call)
        flight.address(self._namespaces.to_drop, self._namespaces.to_talk)
        unregistered = self._under_way.unregistered
        while unregistered and flight.room > 0:
            _, publish = unregistered.popitem()
            flight.add(publish.scope, publish.entry, suppression.register(publish.token))
        while self._forgets and flight.room > 0:
            flight.forget(self._forgets.pop(0))
        ready = self.mode is _READY and not unregistered and bool(self._queue)
        if self._namespaces.to_drop:  # more than one call can carry: nothing is claimed before
            ready = False
        if self._settlements:
            share = self._options.max_keys_per_call // 2 if ready else flight.room
            flight.settle(self._settlements, share)
        if ready:
            flight.reserve(self._queue, self._settlements, self._new_stem())
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
            self._namespaces.open_again()
        flight.finish_forgets(None)
        unchanged, publish_it = self._verdicts.unchanged, self._verdicts.publish
        arrivals, valid = self._arrivals, set(call.scopes) - changed
        for publish, verdict in zip(flight.reserved, reply.verdicts, strict=True):
            if publish.dropped:  # it ended for its client while Redis was asked
                self._drop_reserved(publish)
            elif publish.scope not in valid:
                # Told under another incarnation than the one that knows what is under way here,
                # or for a topic that is another now: good for nothing.
                self._bypass(publish)
            elif verdict >= 0:
                publish.stage = _ENDED
                latest = arrivals.latest.pop(publish.entry, None)
                if latest is not publish or arrivals.behind:
                    arrivals.left(publish, latest)
                unchanged(publish, verdict)
            else:
                publish.floor = -2 - verdict  # suppression.floor_of, without the call
                if arrivals.behind:
                    self._enter_lane(publish)
                else:
                    publish_it(publish)

    def lost(self, error: StoreError) -> None:
        """Nothing is known of the call on its way, nor whether Redis still is the same."""
        flight, self._flight = self._flight, None
        self.mode = Mode.AWAY
        self._under_way.register_again()
        if flight is not None:
            flight.finish_forgets(error)
            for scope, taken in flight.settled:
                for entry, operation in taken.items():
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
        self._namespaces.open_again()

    @property
    def waiting(self) -> int:
        """How many reservations wait to be sent."""
        return len(self._queue)

    @property
    def has_news(self) -> bool:
        """Whether there is anything to tell Redis."""
        planned = self._namespaces.to_talk or self._namespaces.to_drop or self._forgets
        told = self._queue or self._settlements or self._under_way.unregistered
        return bool(told or planned)

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
            "under_way": sum(1 for _ in self._under_way),
            "unsettled": len(self._settlements),
        }

    def _shed(self) -> None:
        self._namespaces.to_drop.update(self._settlements.overflowed())
