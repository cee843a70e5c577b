"""What is really in the topic: end offsets read by a client that is not the gateway's."""

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition

QUIET_S = 1.0


Ends = dict[tuple[str, int], int]


def end_offsets(bootstrap: str, topics: Sequence[str]) -> Ends:
    """The end offset of each partition (what will be the next record's offset)."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "headgate-loadtest"})
    try:
        found = consumer.list_topics(timeout=10).topics
        places = [TopicPartition(one, number) for one in topics for number in found[one].partitions]
        return {
            (at.topic, at.partition): consumer.get_watermark_offsets(at, timeout=10)[1]
            for at in places
        }
    finally:
        consumer.close()


def settled_end_offsets(bootstrap: str, topics: Sequence[str], patience_s: float = 30.0) -> Ends:
    """End offsets once nothing grows any more: for runs in which some ends are not known."""
    give_up = time.monotonic() + patience_s
    last = end_offsets(bootstrap, topics)
    while time.monotonic() < give_up:
        time.sleep(QUIET_S)
        now = end_offsets(bootstrap, topics)
        if now == last:
            break
        last = now
    return last


def growth(before: Ends, after: Ends) -> int:
    """Records written between two readings."""
    return sum(after.values()) - sum(before.values())


def verdict(written: int, published: int, uncertain: int) -> str:
    """Compares the log with the answers: `exact`, `within unknown`, or what is wrong."""
    if written == published:
        return "exact"
    if written < published:
        return f"LOST {published - written}: answered published, not in the log"
    if written <= published + uncertain:
        return f"within unknown: {written - published} of {uncertain} uncertain events are written"
    return f"EXTRA {written - published}: more in the log than the answers allow"
