"""What is really in the topic: end offsets read by a client that is not the gateway's."""

import time

from confluent_kafka import Consumer, TopicPartition

QUIET_S = 1.0


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """The end offset of each partition (what will be the next record's offset)."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "headgate-loadtest"})
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1]
            for number in sorted(partitions)
        }
    finally:
        consumer.close()


def settled_end_offsets(bootstrap: str, topic: str, patience_s: float = 30.0) -> dict[int, int]:
    """End offsets once nothing grows any more: for runs in which some ends are not known."""
    give_up = time.monotonic() + patience_s
    last = end_offsets(bootstrap, topic)
    while time.monotonic() < give_up:
        time.sleep(QUIET_S)
        now = end_offsets(bootstrap, topic)
        if now == last:
            break
        last = now
    return last


def growth(before: dict[int, int], after: dict[int, int]) -> int:
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
