"""The state of suppression in one process: waiting events, events in flight, news for Redis.

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
from headgate.model.suppression import Scope
from headgate.model.suppression_states import TopicSuppression
from headgate.redis.script import StoreError
from headgate.suppression import rules
from headgate.suppression.calls import Forget, Namespaces, OutgoingCall, Settlements, finish
from headgate.suppression.in_flight import Arrivals, Completions, PublishesInFlight
from headgate.suppression.options import SuppressOptions
from headgate.suppression.rules import Agreement, SuppressionCall, SuppressionReply


class Waits:
    """Waiting times of a queue in order of arrival, by counts of arrivals at each poll.

    An event is overdue `timeout_s` seconds after the first poll that saw it.
    """

    __slots__ = ("_polls", "_timeout_s", "left")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._polls: deque[tuple[float, int]] = deque()  # time of a poll, and arrivals until then
        self.left = 0  # number of events, of all arrivals, that no longer wait

    def overdue(self, now_s: float, waiting: int) -> int:
        """Poll, and return the number of overdue events. Call it often.

        Args:
            now_s: Monotonic time, in seconds.
            waiting: Number of events that wait.

        Returns:
            The number of overdue events; they are the oldest ones.
        """
        polls, arrived = self._polls, self.left + waiting
        while polls and polls[0][1] <= self.left:
            polls.popleft()
        if waiting and (not polls or polls[-1][1] < arrived):
            polls.append((now_s, arrived))
        overdue = 0
        while polls and now_s - polls[0][0] >= self._timeout_s:
            overdue = polls.popleft()[1] - self.left
        return overdue


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


def place_again(publish: Publish, scope: Scope) -> None:
    """Place an event by the present partition count of its topic."""
    record = publish.record
    if not publish.placed and record.key is not None:
        record.partition = partition_for(record.key, scope.partitions)
    publish.reserved.partitions = scope.partitions


def behind(call: SuppressionCall, reply: SuppressionReply, grow: Grow) -> set[Scope]:
    """Return the namespaces whose topics have more partitions than this call was made for.

    Nothing was reserved in them.

    Args:
        call: The call.
        reply: Its reply.
        grow: Called with each topic that has more partitions than this process knew.
    """
    namespaces = set()
    for scope, count, state in zip(call.scopes, call.counts, reply.states, strict=True):
        if state.partitions > count:
            namespaces.add(scope)
            if state.partitions > scope.partitions:
                grow(scope, state.partitions)
    return namespaces


class Claims:
    """The state of suppression in one process.

    A token is a stem and a number of two bytes.

    Args:
        new_stem: Returns 10 bytes that were never used before.
        new_nonce: Returns 16 bytes that were never used before.
        grow: Called with a topic that has more partitions than this process knew.
        agreement: The gateways' agreement on their servers; without it nothing is doubted.
    """

    def __init__(
        self,
        verdicts: Verdicts,
        options: SuppressOptions,
        meter: Meter,
        new_stem: Callable[[], bytes],
        new_nonce: Callable[[], bytes],
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
        self._new_stem = new_stem
        self._new_nonce = new_nonce
        self._tell_growth = grow
        self._arrivals = Arrivals()
        self._queue: deque[Publish] = deque()
        self._settlements = Settlements(options.unreserved_max)
        self._in_flight = PublishesInFlight(
            self._arrivals, options.unknown_max, options.fences_by_writing
        )
        self._namespaces = Namespaces()
        self._ends = Completions(
            self._arrivals, self._in_flight, self._settlements, self._namespaces,
            self._token_ttl_s, new_stem,
        )  # fmt: skip
        self._outgoing: OutgoingCall | None = None
        self._waits = Waits(options.timeout_ms / 1000)
        self._forgets: list[Forget] = []
        self._outdated: set[Publish] = set()
        self._rotated_s = 0.0
        self._draining = False
        self._owes = False  # unreserved publishes that Redis does not know yet
        self.mode: int = BypassMode.AWAY

    # ---- calls of ingest and the lanes

    def reserve(self, publish: Publish) -> None:
        """Queue an event for a reservation. The verdict may come before this returns."""
        reservation = publish.reserved
        scope = reservation.scope = reservation.scope.latest()
        scope.asked = True
        if reservation.partitions != scope.partitions:
            place_again(publish, scope)
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
        self._owes = True

    def is_settled(self) -> bool:
        """Return whether Redis knows of every unreserved publish, so that others may rely on it."""
        if self._owes and self.mode == BypassMode.READY and self._outgoing is None:
            waits = self._settlements, self._in_flight.unregistered, self._namespaces.to_drop
            self._owes = any(waits)
        return not self._owes

    def passes(self, scope: Scope, count: int, now_s: float) -> bool:
        """Let events pass unreserved if the topic is announced to the other gateways.

        Events that wait for Redis go first, in their order. So no event overtakes another of its
        key, and events of a topic that is never idle pass as well.

        Args:
            scope: Namespace of the topic.
            count: Number of events.
            now_s: Monotonic time, in seconds.
        """
        scope = scope.latest()
        if now_s >= scope.free_until_s:
            self._namespaces.announce(scope)
            if self.mode != BypassMode.AWAY:
                return False
        if scope.asked and self.mode != BypassMode.AWAY:  # no event waits while Redis is away
            self._let_pass(scope)
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
                place_again(publish, scope)

    def scope_changed(self, old: Scope, new: Scope) -> None:
        """Replace a topic's namespace, and register the events that may land in the new topic."""
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

    # ---- calls of the connection

    def next_call(self, now_s: float) -> OutgoingCall | None:
        """Pack the next call; return None if there is no news.

        Registrations come before any claim, settlements before the claims of their keys.
        """
        options, namespaces = self._options, self._namespaces
        outgoing = OutgoingCall(options.max_keys_per_call, options.max_operations_per_call, now_s)
        outgoing.address(namespaces.to_drop, namespaces.to_announce, namespaces.to_talk)
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
            outgoing.reserve(self._queue, self._settlements, self._new_stem(), force=doubts)
            self._waits.left += len(outgoing.reserved)
        self._outgoing = outgoing if outgoing else None
        return self._outgoing

    def call(self, outgoing: OutgoingCall) -> SuppressionCall:
        """Return the script's call."""
        return outgoing.call(self._spans, self._new_nonce())

    def answered(
        self, outgoing: OutgoingCall, call: SuppressionCall, reply: SuppressionReply, now_s: float
    ) -> None:
        """Apply the script's reply: verdicts in order of arrival.

        Args:
            outgoing: The call as packed here.
            call: The script's call.
            reply: Its reply.
            now_s: Monotonic time, in seconds.
        """
        changed = self._namespaces.answered(call.scopes, reply.states, reply.now, now_s)
        doubted = self._doubted(outgoing.sent_s, call, reply, now_s)
        if outgoing.announced:
            lease_s = self._spans.lease / 1000
            self._namespaces.announced(outgoing.announced, outgoing.sent_s + lease_s)
        if changed:  # Redis lost its state, or another gateway began a new incarnation
            self._in_flight.register_again(changed)
            self._namespaces.open_again()
        self._count(reply)
        outgoing.finish_forgets(None)
        unchanged, publish_it = self._verdicts.unchanged, self._verdicts.publish
        arrivals, valid = self._arrivals, set(call.scopes) - changed
        late, is_behind = list[Publish](), behind(call, reply, self._grow)
        doubtful = set[bytes]()  # entries whose events are reserved again
        for publish, verdict in zip(outgoing.reserved, reply.verdicts, strict=True):
            if publish.stage is not _RESERVING:  # the event has given up waiting
                continue
            reservation = publish.reserved
            if publish.dropped:  # the event ended for its client during the call
                self._drop_reserved(publish)
            elif reservation.scope in is_behind:
                late.append(publish)
            elif reservation.scope not in valid:
                # The verdict is useless: its incarnation lacks the tokens of this process, or the
                # topic was replaced. An event that must not bypass Redis is reserved again, and so
                # are the events behind it.
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
                reservation.floor = -2 - verdict  # rules.floor_of, without the call
                if arrivals.behind:
                    self._enter_lane(publish)
                else:
                    publish_it(publish)
        # Events that are in their lane have passed meanwhile.
        late = [publish for publish in late if publish.stage is _RESERVING]
        for publish in late:
            publish.advance(_QUEUED)
            place_again(publish, publish.reserved.scope)
        self._put_back(late)
        self._outgoing = None  # only now: after a failure `lost` puts the rest back

    def _ask_again(
        self, publish: Publish, verdict: int, doubtful: set[bytes], late: list[Publish]
    ) -> None:
        """Put an event among those for another call; no later event of its key overtakes it.

        Args:
            publish: The event.
            verdict: Its verdict.
            doubtful: Entries whose events are reserved again.
            late: Events for another call.
        """
        if verdict < 0:  # the claim has left a token, and the event gets another one
            self._ends.refuse(publish)
        doubtful.add(publish.reserved.entry)
        late.append(publish)

    def _grow(self, scope: Scope, count: int) -> None:
        self._tell_growth(scope, count)
        if count > scope.partitions:  # the listener does not have the topic
            scope.partitions = count
            self.grew(scope)

    def lost(self, error: StoreError) -> None:
        """Give up the current call: its fate and the state of Redis are unknown."""
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
            self._put_back(
                [publish for publish in outgoing.reserved if publish.stage is _RESERVING]
            )
        self.closed(error)
        self._bypass_all(error.reason)
        self._shed()

    def closed(self, error: StoreError) -> None:
        """Fail the requests to forget that are in no call."""
        if self._outgoing is not None:
            self._outgoing.finish_forgets(error)
        finish((done for _, _, done in self._forgets), error)
        self._forgets.clear()

    def catching_up(self) -> None:
        """Plan to send all missed news to Redis before any claim on a new connection."""
        self.mode = BypassMode.CATCHING_UP
        self._settlements.reconnected()
        self._namespaces.open_again()

    @property
    def waiting(self) -> int:
        """Return the number of events that wait for their reservation."""
        return len(self._queue)

    @property
    def has_news(self) -> bool:
        """Return whether there is anything to send."""
        namespaces = self._namespaces
        planned = (
            namespaces.to_talk or namespaces.to_drop or namespaces.to_announce or self._forgets
        )
        return bool(planned or self._queue or self._settlements or self._in_flight.unregistered)

    @property
    def is_behind(self) -> bool:
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
        return bool(namespaces.to_talk or namespaces.to_announce or self._in_flight.unregistered)

    def states(self, now_s: float) -> dict[str, TopicSuppression]:
        """Return the state of each topic that is compared here."""
        doubts = now_s >= self._agreement.until_s
        return self._namespaces.states(self.mode != BypassMode.READY, now_s, doubts)

    def _shed(self) -> None:
        self._namespaces.to_drop.update(self._settlements.overflowed())

    # ---- ends of publishes

    def acknowledged(self, batch: Sequence[Publish], base_offset: int, now_s: float) -> None:
        """Settle a lane's batch."""
        self._ends.acknowledged(batch, base_offset, now_s, self.mode == BypassMode.AWAY)

    def settle(self, first: Publish, placed: Iterable[tuple[int, Publish]]) -> None:
        """Settle the records of a batch whose keys belong to this Redis server.

        Args:
            first: The first record of the batch.
            placed: The records, with their offsets.
        """
        self._ends.fence(first)
        self._ends.settle(placed, self.mode == BypassMode.AWAY)

    def ended(self, publish: Publish, certain: bool, now_s: float) -> None:
        """Handle an end without acknowledgement.

        Args:
            publish: The event.
            certain: No record can be in the log.
            now_s: Monotonic time, in seconds.
        """
        self._ends.ended(publish, certain, now_s, self.mode == BypassMode.AWAY)

    # ---- topics

    def open(self, scope: Scope) -> None:
        """Create a namespace as soon as Redis answers: its quarantine begins with its birth."""
        self._namespaces.open(scope)

    def shut(self, scope: Scope) -> None:
        """Stop comparing a topic."""
        self._namespaces.shut(scope)

    def touch(self, scope: Scope) -> None:
        """Schedule a heartbeat for the namespace."""
        self._namespaces.to_talk.add(scope)

    def is_synced(self, scope: Scope) -> bool:
        """Return whether Redis has all news of a topic, or is away."""
        namespaces = self._namespaces
        if self.mode == BypassMode.AWAY:
            return True
        if (
            scope in namespaces.to_talk
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
            clock_s = sent_s - reply.now / 1000
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
            self._ends.refuse(publish)
        else:
            self._verdicts.publish(publish)

    def give_up(self, now_s: float) -> int:
        """Let overdue events bypass Redis, or refuse them; return their number.

        The oldest events go first, so no event overtakes another of its key.
        """
        outgoing = self._outgoing
        sent = outgoing.reserved if outgoing else []
        reserving = [publish for publish in sent if publish.stage is _RESERVING]
        self._waits.left -= len(reserving)
        overdue = self._waits.overdue(now_s, len(reserving) + len(self._queue))
        self._waits.left += len(reserving)
        late = [publish for publish in reserving[:overdue] if not publish.dropped]
        count = sum(self._bypass(publish) for publish in late)
        given_up = len(late)
        for _ in range(min(overdue - len(reserving), len(self._queue))):
            if not self._queue:  # the other events passed meanwhile
                break
            self._waits.left += 1
            publish = self._queue.popleft()
            given_up += not publish.dropped
            count += self._go_past(publish)
        if count:
            self._meter.bypassed("redis_slow", count)
        return given_up

    def _let_pass(self, scope: Scope) -> None:
        """Send the waiting events of an announced topic to their lanes: no later event waits.

        This is right even with redis_loss = "refuse", because the announcement covers these events.
        Earlier events of other topics may be given up later, by redis.timeout_ms at most.
        """
        scope.asked = False
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
            self._waits.left += len(queued)
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

    @property
    def in_flight(self) -> int:
        """Return the number of events that have arrived and not ended."""
        return len(self._arrivals)

    @property
    def figures(self) -> dict[str, int]:
        """Return the numbers of events that wait, are in flight, and are not settled yet."""
        return {
            "waiting": len(self._queue),
            "under_way": sum(1 for _ in self._in_flight),
            "unsettled": len(self._settlements),
        }

    @property
    def is_waited_for(self) -> bool:
        """Return whether any event waits for Redis."""
        return bool(self._queue or (self._outgoing is not None and self._outgoing.reserved))

    def _put_back(self, publishes: list[Publish]) -> None:
        """Queue events without a verdict again, before later ones."""
        self._queue.extendleft(reversed(publishes))
        self._waits.left -= len(publishes)

    def _drop_reserved(self, publish: Publish) -> None:
        # A sent claim may have left a token.
        self._ends.drop_reserved(publish, publish.stage is _RESERVING)

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
                self._waits.left += 1
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
            self._ends.refuse(publish)
        reservation.token = self._new_stem() + bytes(2)
        reservation.unreserved = self._owes = True
        self._in_flight.unregistered[reservation.token] = publish
        self._enter_lane(publish)
