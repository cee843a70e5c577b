"""Which partition an event belongs to now, if it waited while its topic changed.

A topic's id and partition count are one fact: a topic that was made again under its name may have
any count. An event is placed by the fact of its arrival. Whatever goes on after a wait is checked
against the fact that holds by then.
"""

from headgate.core.keys import partition_for
from headgate.core.publish import Publish
from headgate.core.suppression import Reservation
from headgate.core.topics.topic import TopicState


def count_of(publish: Publish) -> int:
    """Return the partition count by which the event was placed."""
    if publish.placed_by:
        return publish.placed_by
    if publish.reservation is not None and publish.reservation.partitions:
        return publish.reservation.partitions
    assert publish.common is not None  # it came with a request
    return publish.common.route.lane.partitions


def place_again(publish: Publish, state: TopicState) -> bool:
    """Move the event to the partition that its key has in the topic as it is now.

    Returns whether the topic has another partition count than when the event was placed. A
    partition that the client chose stays.
    """
    count = state.partitions
    if count_of(publish) == count:
        return False
    record, reservation = publish.record, publish.reservation
    publish.placed_by = count
    if not publish.placed:
        record.partition = place(record.key, record.partition, count)
    if reservation is not None:
        if publish.digest is None:  # events that pass share one
            publish.reservation = Reservation(reservation.scope, count)
        else:
            reservation.partitions = count
    return True


def place(key: bytes | None, partition: int, count: int) -> int:
    """Return the partition of this key; without a key any will do, so it stays if it can."""
    return partition % count if key is None else partition_for(key, count)
