"""The reservations of one process: waiting events, events in flight, news for Redis.

The code is synchronous, and the time is an argument. `suppressor.py` carries the calls to Redis and
the replies back.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from headgate.backends.base import Verdicts
from headgate.metrics.meter import Meter
from headgate.model.keys import partition_for
from headgate.model.outcome import Failure, Reason
from headgate.model.publish import Publish, Stage
from headgate.model.suppression import Reservation, Scope
from headgate.model.suppression_states import TopicSuppression
from headgate.redis.client import FEW
from headgate.redis.script import StoreError
from headgate.suppression import rules
from headgate.suppression.calls import Forget, Namespaces, OutgoingCall, Settlements, finish
from headgate.suppression.in_flight import Arrivals, PublishesInFlight, Waits
from headgate.suppression.options import SuppressOptions
from headgate.suppression.rules import (
    SETTLE,
    Agreement,
    SuppressionCall,
    SuppressionReply,
    pack_settlement,
)

_NONE: Final = set[Scope]()

_REFUSED = Failure(
    Reason.REDIS_UNAVAILABLE,
    "Redis does not answer (in time), and without it this topic publishes nothing",
    retry_after_s=1,
)


class BypassMode:
    """Modes of the bypass.

    Attributes:
        AWAY: Events bypass Redis.
        CATCHING_UP: Events still bypass Redis, which gets the news that it has missed.
        READY: Events are reserved.
    """

    AWAY: Final = 0
    CATCHING_UP: Final = 1
    READY: Final = 2


# Looking a member up in an Enum class costs 0.1 us in Python 3.11.
_QUEUED: Final = Stage.QUEUED
_RESERVING: Final = Stage.RESERVING
_ENDED: Final = Stage.ENDED


Grow = Callable[[Scope, int], None]


def grow_alone(scope: Scope, partitions: int) -> None:
    """Ignore the growth of a topic: only suppression has it here."""


def _place_by_scope(publish: Publish, scope: Scope) -> None:
    """Move a waiting event to the partition of its key, by the partition count of its scope."""
    record = publish.record
    if not publish.is_client_placed and record.key is not None:
        record.partition = partition_for(record.key, scope.partitions)
    publish.reserved.partitions = scope.partitions


class Reservations:
    """The reservations of one process.

    A token is a stem of 10 bytes and a number of two bytes.

    Args:
        verdicts: Receiver of the verdicts.
        options: Options of suppression.
        meter: Counts the events that bypassed suppression.
        random_bytes: Source of random bytes, such as `os.urandom`.
        grow: Called with a topic that has more partitions than this process knew.
        agreement: The gateways' agreement on their list of servers; None in a
            process without other gateways.
    """

    def __init__(
        self,
        verdicts: Verdicts,
        options: SuppressOptions,
        meter: Meter,
        random_bytes: Callable[[int], bytes],
        grow: Grow = grow_alone,
        agreement: Agreement | None = None,
    ) -> None:
        self._agreement = agreement or Agreement.granted()
        self._options = options
        self._spans = options.spans
        self._quarantine_s = options.quarantine_ms / 1000
        self._token_ttl_s = options.token_ttl_ms / 1000
        self._verdicts = verdicts
        self._meter = meter
        self._unique, self._unique_nonce = random_bytes(5), random_bytes(10)
        self._numbers = 0  # of stems and nonces
        self._on_growth = grow
        self._arrivals = Arrivals()
        self._queue: deque[Publish] = deque()
        self._settlements = Settlements(options.unreserved_max)
        self._in_flight = PublishesInFlight(
            self._arrivals, options.unknown_max, options.fences_by_writing
        )
        self._namespaces = Namespaces()
        self._outgoing: OutgoingCall | None = None
        self._waits = Waits(options.timeout_ms / 1000)
        self._forgets: list[Forget] = []
        self._outdated: set[Publish] = set()
        self._rotated_s = 0.0
        self._draining = False
        self._may_be_unsettled = False  # Redis may not know of every unreserved publish yet
        self.mode: int = BypassMode.AWAY

    def _new_stem(self) -> bytes:
        """Return 10 bytes that were never used before."""
        self._numbers += 1
        return self._unique + self._numbers.to_bytes(5, "big")

    def _new_nonce(self) -> bytes:
        """Return 16 bytes that were never used before."""
        self._numbers += 1
        return self._unique_nonce + self._numbers.to_bytes(6, "big")

    # ---- calls of ingest and the lanes

    def reserve(self, publish: Publish) -> None:
        """Queue an event for a reservation. The verdict may come before this returns."""
        reservation = publish.reservation
        assert reservation is not None  # as in `Publish.reserved`, without the call
        scope = reservation.scope = reservation.scope.latest()
        scope.may_have_waiting = True
        if reservation.partitions != scope.partitions:
            _place_by_scope(publish, scope)
        key = publish.record.key
        assert key is not None  # events without a key are published without a reservation
        reservation.entry = entry = scope.entry(key)
        latest = self._arrivals.latest.setdefault(entry, publish)
        if latest is not publish and self._arrivals.arrive(publish, latest):
            return
        publish.advance(_QUEUED)
        self._queue.append(publish)
        if self.mode != BypassMode.READY and not self._draining:
            self._bypass_all("breaker_open")

    def forget(self, request: Forget) -> None:
        """Queue a request to forget; its future ends with the call that carries it."""
        self._forgets.append(request)

    def drop(self, scope: Scope) -> None:
        """Begin a new incarnation of the namespace before the next reservation."""
        self._namespaces.to_drop.add(scope)
        self._may_be_unsettled = True

    def is_settled(self) -> bool:
        """Return whether Redis knows of every unreserved publish, so that others may rely on it."""
        if self._may_be_unsettled and self.mode == BypassMode.READY and self._outgoing is None:
            waits = self._settlements, self._in_flight.unregistered, self._namespaces.to_drop
            self._may_be_unsettled = any(waits)
        return not self._may_be_unsettled

    def let_pass(self, scope: Scope, count: int, now_s: float) -> bool:
        """Let events pass unreserved if the topic is announced to the other gateways.

        Events that wait for Redis go first, in their order. So no event overtakes another of its
        key, and events of a topic that is never idle pass as well.

        Args:
            scope: Namespace of the topic.
            count: Number of events.
            now_s: Monotonic time, in seconds.
        """
        scope = scope.latest()
        if now_s >= scope.announced_until_s:
            self._namespaces.announce(scope)
            if self.mode != BypassMode.AWAY:
                return False
        # No event waits while Redis is away.
        if scope.may_have_waiting and self.mode != BypassMode.AWAY:
            self._let_waiting_pass(scope)
        self._namespaces.passing.add(scope)  # `renew` may have dropped it before the first event
        scope.passed_s = now_s
        scope.unreserved.count += count
        return True

    def rule_changed(self, scope: Scope) -> None:
        """Begin a new incarnation, because another rule extracts the keys from now on.

        Events in flight have keys of the former rule, without tokens for the present keys. So the
        topic is announced until they end.
        """
        self.drop(scope)
        in_flight = *self._arrivals, *self._in_flight
        self._outdated.update(publish for publish in in_flight if publish.reserved.scope is scope)
        self._namespaces.announce(scope)

    def grew(self, scope: Scope) -> None:
        """Place the waiting events of a topic again, which has more partitions."""
        for publish in self._queue:
            if publish.reserved.scope is scope:
                _place_by_scope(publish, scope)

    def scope_changed(self, old: Scope, new: Scope) -> None:
        """Replace a topic's namespace, and register the events that may land in the new topic."""
        new.passed_s, new.unreserved, old.successor = old.passed_s, old.unreserved, new
        new.spooled, new.may_have_waiting = old.spooled, old.may_have_waiting
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
                    _place_by_scope(publish, new)
        self._arrivals.rename()
        self._in_flight.register_again({new})
        self._namespaces.forget(old)

    # ---- calls of the connection

    def next_call(self, now_s: float) -> OutgoingCall | None:
        """Pack the next call; return None if there is no news.

        Registrations come before any claim, settlements before the claims of their keys.
        """
        namespaces = self._namespaces
        nonce, stem = self._new_nonce(), self._new_stem()
        outgoing = OutgoingCall(self._options, self._spans, nonce, now_s)
        outgoing.address(namespaces.to_drop, namespaces.to_announce, namespaces.to_refresh)
        unregistered = self._in_flight.unregistered
        while unregistered and outgoing.room > 0:
            reserved = unregistered.popitem()[1].reserved
            outgoing.add(reserved.scope, reserved.entry, rules.register(reserved.token))
        while self._forgets and outgoing.room > 0:
            outgoing.forget(self._forgets.pop(0))
        # The remaining drops come before any claim.
        ready = (
            self.mode == BypassMode.READY
            and not (unregistered or namespaces.to_drop)
            and bool(self._queue)
        )
        if self._settlements:
            outgoing.settle(self._settlements, 0.5 if ready else 1.0)
        if ready:
            doubts = bool(namespaces.doubted) or now_s >= self._agreement.until_s
            outgoing.reserve(self._queue, self._settlements, stem, force=doubts)
            self._waits.passed += len(outgoing.reserved)
        self._outgoing = outgoing if outgoing else None
        return self._outgoing

    def apply_reply(
        self, outgoing: OutgoingCall, call: SuppressionCall, reply: SuppressionReply, now_s: float
    ) -> None:
        """Apply the script's reply: verdicts in order of arrival.

        Args:
            outgoing: The call as packed here.
            call: The script's call.
            reply: Its reply.
            now_s: Monotonic time, in seconds.
        """
        changed = self._namespaces.apply_states(call.scopes, reply.states, reply.now_ms, now_s)
        doubted = self._doubted(outgoing.sent_s, call, reply, now_s)
        if outgoing.announced:
            lease_s = self._spans.lease / 1000
            self._namespaces.extend_announcements(outgoing.announced, outgoing.sent_s + lease_s)
        if changed:  # Redis lost its state, or another gateway began a new incarnation
            self._in_flight.register_again(changed)
            self._namespaces.open_again()
        self._count(reply)
        if outgoing.forgets:
            finish(outgoing.forgets, None)
        grown = self._grown(call, reply)
        late = self._apply_verdicts(outgoing, reply, set(call.scopes) - changed, doubted, grown)
        # Events that are in their lane have passed meanwhile.
        late = [publish for publish in late if publish.stage is _RESERVING]
        for publish in late:
            publish.advance(_QUEUED)
            _place_by_scope(publish, publish.reserved.scope)
        self._put_back(late)
        self._outgoing = None  # only now: after a failure `lost` puts the rest back

    def _apply_verdicts(
        self,
        outgoing: OutgoingCall,
        reply: SuppressionReply,
        valid: set[Scope],
        doubted: set[Scope],
        grown: set[Scope],
    ) -> list[Publish]:
        """Apply the verdicts of a reply to the events that still wait for them.

        Args:
            outgoing: The call as packed here.
            reply: Its reply.
            valid: Namespaces whose verdicts count. All others are useless: the incarnation lacks
                the tokens of this process, or the topic was replaced.
            doubted: Namespaces whose `unchanged` must not be believed.
            grown: Namespaces in which nothing was reserved.

        Returns:
            The events for another call.
        """
        late = list[Publish]()
        again = set[bytes]()  # entries whose later events are reserved again, too
        for publish, verdict in zip(outgoing.reserved, reply.verdicts, strict=True):
            if publish.stage is not _RESERVING:  # the event has given up waiting
                continue
            reservation = publish.reservation
            assert reservation is not None  # as in `Publish.reserved`, without the call
            scope = reservation.scope
            is_valid = scope in valid
            if publish.dropped:  # the event ended for its client during the call
                self._drop_reserved(publish)
            elif scope in grown:
                late.append(publish)
            elif (
                (again and reservation.entry in again)
                or (reservation.refuse and not is_valid)  # the event must not bypass Redis
                or (doubted and verdict >= 0 and is_valid and scope in doubted)
            ):
                if verdict < 0:  # the claim has left a token, and the event gets another one
                    self._refuse(publish)
                again.add(reservation.entry)
                late.append(publish)
            elif is_valid:
                self._decide(publish, reservation, verdict)
            else:
                self._bypass(publish)
        return late

    def _decide(self, publish: Publish, reservation: Reservation, verdict: int) -> None:
        """End an event as unchanged, or publish it."""
        arrivals = self._arrivals
        if verdict >= 0:
            publish.advance(_ENDED)
            latest = arrivals.latest.pop(reservation.entry, None)
            if latest is not publish or arrivals.equal_before:
                arrivals.left(publish, latest)
            self._verdicts.unchanged(publish, verdict)
            return
        reservation.floor = -2 - verdict  # rules.floor_of, without the call
        if arrivals.equal_before:
            self._enter_lane(publish)
        else:
            self._verdicts.publish(publish)

    def _grown(self, call: SuppressionCall, reply: SuppressionReply) -> set[Scope]:
        """Return the namespaces whose topics have more partitions than this call was made for.

        Nothing was reserved in them.
        """
        namespaces = set()
        for scope, count, state in zip(call.scopes, call.counts, reply.states, strict=True):
            if state.partitions > count:
                namespaces.add(scope)
                if state.partitions > scope.partitions:
                    self._grow(scope, state.partitions)
        return namespaces

    def _grow(self, scope: Scope, count: int) -> None:
        self._on_growth(scope, count)
        if count > scope.partitions:  # the listener does not have the topic
            scope.partitions = count
            self.grew(scope)

    def lost(self, error: StoreError) -> None:
        """Give up the current call: its fate and the state of Redis are unknown."""
        outgoing, self._outgoing = self._outgoing, None
        self.mode = BypassMode.AWAY
        self._in_flight.register_again()
        if outgoing is not None:
            finish(outgoing.forgets, error)
            for scope, taken in outgoing.settled:
                for entry, operation in taken.items():
                    self._settlements.add(scope, entry, operation)
            self._namespaces.to_drop |= outgoing.dropped
            self._namespaces.to_announce |= outgoing.announced
            self._put_back(
                [publish for publish in outgoing.reserved if publish.stage is _RESERVING]
            )
        self.fail_forgets(error)
        self._bypass_all(error.reason)
        self._shed()

    def fail_forgets(self, error: StoreError) -> None:
        """Fail the requests to forget that are in no call."""
        if self._outgoing is not None:
            finish(self._outgoing.forgets, error)
        finish((done for _, _, done in self._forgets), error)
        self._forgets.clear()

    def begin_catching_up(self) -> None:
        """Plan to send all missed news to Redis before any claim on a new connection."""
        self.mode = BypassMode.CATCHING_UP
        self._settlements.queue_unreserved()
        self._namespaces.open_again()

    def waiting(self) -> int:
        """Return the number of events that wait for their reservation."""
        return len(self._queue)

    @property
    def has_news(self) -> bool:
        """Return whether there is anything to send."""
        namespaces = self._namespaces
        planned = (
            namespaces.to_refresh or namespaces.to_drop or namespaces.to_announce or self._forgets
        )
        return bool(planned or self._queue or self._settlements or self._in_flight.unregistered)

    @property
    def has_much_news(self) -> bool:
        """Return whether Redis lacks more news than fits into a call with reservations."""
        missing = len(self._in_flight.unregistered) + len(self._settlements)
        return bool(self._namespaces.to_announce) or missing > self._options.max_keys_per_call // 2

    def tick(self, now_s: float) -> bool:
        """Renew tokens and plan heartbeats; return whether there is anything to send."""
        if now_s - self._rotated_s >= self._token_ttl_s / 6:
            self._rotated_s = now_s
            self._in_flight.rotate(now_s, self._token_ttl_s)
        lease_s = self._spans.lease / 1000
        if self._outdated:
            self._outdated &= {*self._arrivals, *self._in_flight}
        self._namespaces.renew(
            now_s, lease_s, {publish.reserved.scope for publish in self._outdated}
        )
        overdue_s = now_s - self._options.quarantine_ms / 6000
        self._namespaces.talk_to(self._in_flight.scopes(), overdue_s)
        if self._options.touches_opened:
            self._namespaces.talk_to(self._namespaces.opened, overdue_s)
        self._namespaces.check_doubted(now_s)
        self._namespaces.stay_in_touch(now_s)
        if self.mode == BypassMode.AWAY:
            self._shed()
        namespaces = self._namespaces
        return bool(namespaces.to_refresh or namespaces.to_announce or self._in_flight.unregistered)

    def states(self, now_s: float) -> dict[str, TopicSuppression]:
        """Return the state of each topic that is compared here."""
        doubts = now_s >= self._agreement.until_s
        return self._namespaces.states(self.mode != BypassMode.READY, now_s, doubts)

    def _shed(self) -> None:
        self._namespaces.to_drop.update(self._settlements.drop_overflow())

    # ---- ends of publishes

    def acknowledged(self, batch: Sequence[Publish], base_offset: int, now_s: float) -> None:
        """Settle a lane's batch. An offset at or below the floor means a recreated topic.

        The floor is the highest offset of the key at the reservation: its record was in the log
        before this one. The entry's present offset may be of a racing writer that was faster.

        Args:
            batch: Events of the batch.
            base_offset: Offset of the first event; negative if unknown.
            now_s: Monotonic time, in seconds.
        """
        if base_offset >= 0:
            self.settle(batch[0], enumerate(batch, base_offset))
            return
        self._fence(batch[0])
        for publish in batch:
            self.ended(publish, False, now_s)

    def settle(self, first: Publish, placed: Iterable[tuple[int, Publish]]) -> None:
        """Settle the records of a batch whose keys belong to this Redis server.

        Args:
            first: The first record of the batch.
            placed: The records, with their offsets.
        """
        self._fence(first)
        is_away = self.mode == BypassMode.AWAY
        in_flight, arrivals = self._in_flight, self._arrivals
        settlements, scope, pending = self._settlements, None, dict[bytes, bytes]()
        for offset, publish in placed:
            digest = publish.digest
            if not digest:
                if digest is not None:
                    self._settle_placed(publish)
                elif publish.reservation is not None:
                    publish.reservation.scope.unreserved.count -= 1
                    publish.reservation = None  # the publish ends only once
                continue
            reservation = publish.reservation
            assert reservation is not None  # as in `Publish.reserved`, without the call
            token, entry = reservation.token, reservation.entry
            latest = arrivals.latest.pop(entry, None)
            if latest is not publish:
                arrivals.left(publish, latest)
            if in_flight.unregistered or in_flight.unknown:
                in_flight.remove(token)
            if offset <= reservation.floor:
                self._namespaces.to_drop.add(reservation.scope)
            if is_away and reservation.unreserved:
                settlements.add_unreserved(publish, offset)
                continue
            if reservation.scope is not scope:
                scope = reservation.scope
                pending = settlements.pending_of(scope)
            operation = pack_settlement(SETTLE, token, digest, offset, reservation.partitions)
            if entry in pending:
                settlements.add(scope, entry, operation)
            else:
                pending[entry] = operation

    def ended(self, publish: Publish, certain: bool, now_s: float) -> None:
        """Handle an end without acknowledgement.

        Args:
            publish: The event.
            certain: No record can be in the log.
            now_s: Monotonic time, in seconds.
        """
        if publish.leader is not None:
            return
        if publish.digest is None:
            self._end_unreserved(publish, certain, now_s)
            return
        self._arrivals.leave(publish)
        if not certain:
            self._in_flight.leave_unknown(publish, now_s + self._token_ttl_s)
            return
        reservation = publish.reserved
        self._in_flight.remove(reservation.token)
        if not (reservation.unreserved and self.mode == BypassMode.AWAY):
            self._refuse(publish)

    def _fence(self, publish: Publish) -> None:
        """Note that Kafka acknowledged a record of the publish's partition."""
        if self._in_flight.unfenced:
            self._in_flight.fence(publish)

    def _refuse(self, publish: Publish) -> None:
        """Queue the refusal of a token: no record is in the log, or another token covers it."""
        reservation = publish.reserved
        refused = rules.refused(reservation.token)
        self._settlements.add(reservation.scope, reservation.entry, refused)

    def _end_unreserved(self, publish: Publish, certain: bool, now_s: float) -> None:
        """End a publish that passed by an announcement; it may land after the announcement ends."""
        passed, key = publish.reservation, publish.record.key
        if passed is None:
            return
        passed.scope.unreserved.count -= 1
        publish.reservation = None  # the publish ends only once
        if not certain and key is not None:
            publish.digest = b""  # from now on the event has a token
            scope = passed.scope.latest()  # it may land in the present topic of this name
            publish.reservation = own = Reservation(scope, passed.partitions)
            own.token, own.entry = self._new_stem() + bytes(2), scope.entry(key)
            self._in_flight.leave_unknown(publish, now_s + self._token_ttl_s)

    def _settle_placed(self, publish: Publish) -> None:
        """Settle a record without a comparison, whose offset and content say nothing of its key.

        The client chose the partition, or the topic suppresses nothing here. Until now the record's
        token prevented that another event of the key is unchanged. CLEAR drops the digest, and the
        trust in all tokens that were reserved before this record was in the log.
        """
        self._arrivals.leave(publish)
        reservation = publish.reserved
        self._in_flight.remove(reservation.token)
        operation = rules.CLEAR + rules.refused(reservation.token)
        self._settlements.add(reservation.scope, reservation.entry, operation)

    # ---- topics

    def open(self, scope: Scope) -> None:
        """Create a namespace as soon as Redis answers: its quarantine begins with its birth."""
        self._namespaces.open(scope)

    def shut(self, scope: Scope) -> None:
        """Stop comparing a topic."""
        self._namespaces.shut(scope)

    def touch(self, scope: Scope) -> None:
        """Schedule a heartbeat for the namespace."""
        self._namespaces.to_refresh.add(scope)

    def is_synced(self, scope: Scope) -> bool:
        """Return whether Redis has all news of a topic, or is away."""
        namespaces = self._namespaces
        if self.mode == BypassMode.AWAY:
            return True
        if (
            scope in namespaces.to_refresh
            or scope in namespaces.to_announce
            or scope in namespaces.to_drop
        ):
            return False
        return self._outgoing is None or scope not in self._outgoing.scopes

    def _doubted(
        self, sent_s: float, call: SuppressionCall, reply: SuppressionReply, now_s: float
    ) -> set[Scope]:
        """Return the namespaces of a reply whose `unchanged` must not be believed."""
        agreement, namespaces = self._agreement, self._namespaces
        clock_s = agreement.clock_s
        if clock_s is None:
            clock_s = sent_s - reply.now_ms / 1000
        away_s = clock_s - self._quarantine_s
        born_s = [away_s + state.opens_ms / 1000 for state in reply.states]
        if (
            not namespaces.doubted
            and now_s < agreement.until_s
            and min(born_s) >= agreement.quiet_s
        ):
            return _NONE
        return namespaces.judge(call.scopes, born_s, agreement, now_s)

    def _count(self, reply: SuppressionReply) -> None:
        if reply.crowded:
            self._meter.bypassed("crowded", reply.crowded)
        if reply.forgotten:
            self._meter.bypassed("redis_full", reply.forgotten)

    def _enter_lane(self, publish: Publish) -> None:
        if self._arrivals.join_in_lane(publish):
            self._in_flight.remove(publish.reserved.token)
            self._refuse(publish)
        else:
            self._verdicts.publish(publish)

    def give_up(self, now_s: float) -> int:
        """Let overdue events bypass Redis, or refuse them; return their number.

        The oldest events go first, so no event overtakes another of its key.
        """
        outgoing = self._outgoing
        sent = outgoing.reserved if outgoing else []
        reserving = [publish for publish in sent if publish.stage is _RESERVING]
        self._waits.passed -= len(reserving)
        overdue = self._waits.overdue(now_s, len(reserving) + len(self._queue))
        self._waits.passed += len(reserving)
        late = [publish for publish in reserving[:overdue] if not publish.dropped]
        count = sum(self._bypass(publish) for publish in late)
        given_up = len(late)
        for _ in range(min(overdue - len(reserving), len(self._queue))):
            if not self._queue:  # the other events passed meanwhile
                break
            self._waits.passed += 1
            publish = self._queue.popleft()
            given_up += not publish.dropped
            count += self._go_past(publish)
        if count:
            self._meter.bypassed("redis_slow", count)
        return given_up

    def _let_waiting_pass(self, scope: Scope) -> None:
        """Send the waiting events of an announced topic to their lanes: no later event waits.

        This is right even with redis_loss = "refuse", because the announcement covers these events.
        Earlier events of other topics may be given up later, by redis.timeout_ms at most.
        """
        scope.may_have_waiting = False
        outgoing = self._outgoing
        passing = [
            publish
            for publish in (outgoing.reserved if outgoing is not None else ())
            if publish.stage is _RESERVING
            and publish.reserved.scope is scope
            and not publish.dropped
        ]
        queued = [publish for publish in self._queue if publish.reserved.scope is scope]
        if queued:
            self._queue = deque(
                publish for publish in self._queue if publish.reserved.scope is not scope
            )
            self._waits.passed += len(queued)
        for publish in (*passing, *queued):
            if publish.dropped:
                self._drop_reserved(publish)
            else:
                self._publish_unreserved(publish)

    def hold(self, scope: Scope) -> None:
        """Announce a topic until `release`, as if one unreserved event were always in flight."""
        scope = scope.latest()
        self._namespaces.announce(scope)
        scope.unreserved.count += 1
        scope.spooled.count += 1

    def release(self, scope: Scope) -> None:
        """End a `hold`."""
        scope.unreserved.count -= 1
        scope.spooled.count -= 1

    def is_urgent(self) -> bool:
        """Return whether any event waits for its reservation."""
        return bool(self._queue)

    def is_busy(self) -> bool:
        """Return whether so much is in flight that more is likely to arrive soon."""
        return len(self._arrivals.latest) + len(self._arrivals.earlier) > FEW

    @property
    def is_waited_for(self) -> bool:
        """Return whether any event waits for Redis."""
        return bool(self._queue or (self._outgoing is not None and self._outgoing.reserved))

    def _put_back(self, publishes: list[Publish]) -> None:
        """Queue events without a verdict again, before later ones."""
        self._queue.extendleft(reversed(publishes))
        self._waits.passed -= len(publishes)

    def _drop_reserved(self, publish: Publish) -> None:
        """Remove an event that ended for its client before the producer had it."""
        self._arrivals.leave(publish)
        if publish.stage is _RESERVING:  # the reservation may have left a token
            self._refuse(publish)

    def _go_past(self, publish: Publish) -> bool:
        if publish.dropped:
            self._drop_reserved(publish)
            return False
        return self._bypass(publish)

    def _bypass_all(self, reason: str) -> None:
        # New events join the queue meanwhile: an event never overtakes another of its key.
        self._draining, count = True, 0
        try:
            while self._queue:
                self._waits.passed += 1
                count += self._go_past(self._queue.popleft())
        finally:
            self._draining = False
            if count:
                self._meter.bypassed(reason, count)

    def _bypass(self, publish: Publish) -> bool:
        """Publish without Redis, or refuse if the topic requires it; return whether it published.

        Redis may have run the claim although no reply came. So the claim's token is refused with
        the next settlements, behind the registration or settlement of a new one. Otherwise it would
        prevent suppression of the key until it expires.
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
            self._refuse(publish)
        reservation.token = self._new_stem() + bytes(2)
        reservation.unreserved = self._may_be_unsettled = True
        self._in_flight.unregistered[reservation.token] = publish
        self._enter_lane(publish)
