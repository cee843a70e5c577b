"""What suppression knows of one event: the slot that it has on a `Publish`."""

from headgate.core.suppression.protocol import Scope


class Reservation:
    """An event that Redis is asked about, or that passes by an announcement.

    scope: the suppression namespace.  partitions: the count by which its record was placed.
    force: publish even if unchanged.  refuse: the topic's redis_loss = "refuse".
    entry: the name of its key's entry in Redis.  token: this publish's token in it.
    floor: the key's highest offset when it was reserved.
    unreserved: it goes to Kafka without a reservation.

    Events that pass have no entry and no token, so those of a batch share one.
    """

    # Class defaults, as in `Publish`.
    entry: bytes = b""
    token: bytes = b""
    floor: int = -1
    unreserved: bool = False

    def __init__(
        self, scope: Scope, partitions: int = 0, force: bool = False, refuse: bool = False
    ) -> None:
        self.scope = scope
        self.partitions = partitions
        self.force = force
        self.refuse = refuse
