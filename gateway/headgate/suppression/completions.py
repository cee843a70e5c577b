"""How publishes end, and what Redis must be told of that."""

from collections.abc import Callable, Iterable, Sequence

from headgate.core.publish import Publish
from headgate.core.suppression import protocol
from headgate.core.suppression.protocol import SETTLE, pack_settlement
from headgate.core.suppression.reservation import Reservation
from headgate.suppression.arrivals import Arrivals
from headgate.suppression.in_flight import PublishesInFlight
from headgate.suppression.namespaces import Namespaces
from headgate.suppression.settlements import Settlements


class Completions:
    """Takes publishes out of what is in flight, and queues their settlements.

    token_ttl_s: how long a publish of unknown end may land, if nothing else is known of it.
    new_stem: see `bypass.Bypass`.
    """

    def __init__(
        self,
        arrivals: Arrivals,
        in_flight: PublishesInFlight,
        settlements: Settlements,
        namespaces: Namespaces,
        token_ttl_s: float,
        new_stem: Callable[[], bytes],
    ) -> None:
        self._new_stem = new_stem
        self._arrivals = arrivals
        self._in_flight = in_flight
        self._settlements = settlements
        self._namespaces = namespaces
        self._token_ttl_s = token_ttl_s

    def acknowledged(
        self, batch: Sequence[Publish], base_offset: int, now_s: float, is_away: bool
    ) -> None:
        """See `base.Suppression`. is_away: Redis is. An offset at or below the floor: the topic
        was recreated.

        The protocol says "an acknowledged offset <= the entry's o"; with racing writers that
        holds for every slower one, so the highest offset *when it was reserved* decides, which
        lay in the log before this record did.
        """
        self.fence(batch[0])
        if base_offset < 0:
            for publish in batch:
                self.ended(publish, False, now_s, is_away)
            return
        self.settle(enumerate(batch, base_offset), is_away)

    def fence(self, publish: Publish) -> None:
        """A record of its partition was acknowledged."""
        if self._in_flight.unfenced:
            self._in_flight.fence(publish)

    def settle(self, placed: Iterable[tuple[int, Publish]], is_away: bool) -> None:
        """These were acknowledged, each with its offset."""
        in_flight, arrivals = self._in_flight, self._arrivals
        settlements, scope, pending = self._settlements, None, dict[bytes, bytes]()
        for offset, publish in placed:
            digest = publish.digest
            if not digest:
                if digest is not None:
                    self._settle_placed(publish)
                elif publish.reservation is not None:
                    publish.reservation.scope.unreserved.count -= 1
                    publish.reservation = None  # it has ended, and ends once
                continue
            reservation = publish.reserved
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
                pending = settlements.of(scope)
            operation = pack_settlement(SETTLE, token, digest, offset, reservation.partitions)
            if entry in pending:
                settlements.add(scope, entry, operation)
            else:
                pending[entry] = operation

    def ended(self, publish: Publish, certain: bool, now_s: float, is_away: bool) -> None:
        """See `base.Suppression`."""
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
        if not (reservation.unreserved and is_away):
            self.refuse(publish)

    def refuse(self, publish: Publish) -> None:
        """No record of it is in the log, or another token stands for it."""
        reservation = publish.reserved
        refused = protocol.refused(reservation.token)
        self._settlements.add(reservation.scope, reservation.entry, refused)

    def drop_reserved(self, publish: Publish, may_have_token: bool) -> None:
        """It ended for its client before it was handed over."""
        self._arrivals.leave(publish)
        if may_have_token:
            self.refuse(publish)

    def _end_unreserved(self, publish: Publish, certain: bool, now_s: float) -> None:
        """It passed by an announcement, which ends some time; it may land later than that."""
        passed, key = publish.reservation, publish.record.key
        if passed is None:
            return
        passed.scope.unreserved.count -= 1
        publish.reservation = None  # it has ended, and ends once
        if not certain and key is not None:
            publish.digest = b""  # from now on it is one with a token
            scope = passed.scope.latest()  # it may land in the topic that is called so now
            publish.reservation = own = Reservation(scope, passed.partitions)
            own.token, own.entry = self._new_stem() + bytes(2), scope.entry(key)
            self._in_flight.leave_unknown(publish, now_s + self._token_ttl_s)

    def _settle_placed(self, publish: Publish) -> None:
        """A record that was not compared: its client chose the partition, or its topic suppresses
        nothing here. Its offset or content says nothing of its key.

        Its token was there until now, so nothing of the key was unchanged meanwhile; CLEAR drops
        the digest, and the trust in whatever was reserved before this record was in the log.
        """
        self._arrivals.leave(publish)
        reservation = publish.reserved
        self._in_flight.remove(reservation.token)
        operation = protocol.CLEAR + protocol.refused(reservation.token)
        self._settlements.add(reservation.scope, reservation.entry, operation)
