"""One event's way through the process, from its reservation to its end.

Mutable on purpose: it is the single object that ingest, suppression and lanes pass on, so that a
batch of events costs one list and no further allocation. It decides nothing.
"""

from enum import IntEnum
from typing import Any

from headgate.core.record import Record


class Stage(IntEnum):
    """Where a publish is. Order matters: everything below HANDED is certainly not in Kafka."""

    NEW = 0
    QUEUED = 1  # waits for its reservation to be sent
    RESERVING = 2  # its reservation is on its way to Redis
    LANE = 3  # in its lane, not handed to the producer
    HANDED = 4  # with the producer: the end is Kafka's
    ENDED = 5  # published, refused, unknown for good, unchanged or dropped


class Publish:
    """An event on its way.

    record: what Kafka gets; its headers are filled in once it is certain that it will be handed
    over, for most events of a state topic are unchanged.  common: what its request's events share.
    size: upper bound of the record's bytes (`record.size_of`).
    ticket, index: the request, and the event's place in it, that wait for the outcome.
    digest: 16 bytes when the topic suppresses, else None.  scope: the suppression namespace.
    force: publish even if unchanged.  placed: its client chose the partition, so its offset says
    nothing about its key; its digest is empty.  refuse: the topic's redis_loss = "refuse".
    entry: the name of its key's entry in Redis.  token: this publish's token in it.
    floor: the key's highest offset when it was reserved.  partitions: the count by which its
    record was placed.
    blind: it goes to Kafka without a reservation.  dropped: its deadline passed before it was
    handed over, so no lane may hand it over any more.
    source: of a CloudEvent whose id is event_id.
    followers: equal events of the same key that take this one's outcome.  leader: whose outcome
    this one takes.
    climbs: its topic has a ladder.  oversized: it is larger than its topic allows
    (`route.Oversized`).
    whole: it is one of the records that an oversized event became (`ladder.parts.Whole`).
    lone: its batch, built beforehand.
    """

    # Class defaults instead of slots: most of these stay as they are, and setting all of them for
    # every event would cost more than the rest of its construction.
    stage: Stage = Stage.NEW
    digest: bytes | None = None
    scope: Any = None
    force: bool = False
    placed: bool = False
    refuse: bool = False
    entry: bytes = b""
    token: bytes = b""
    floor: int = -1
    partitions: int = 0
    blind: bool = False
    dropped: bool = False
    followers: "list[Publish] | None" = None
    leader: "Publish | None" = None
    common: Any = None
    source: str | None = None
    climbs: bool = False
    oversized: Any = None
    whole: Any = None
    lone: Any = None

    def __init__(
        self, record: Record, size: int, ticket: Any, index: int, event_id: str | None
    ) -> None:
        self.record = record
        self.size = size
        self.ticket = ticket
        self.index = index
        self.event_id = event_id
