"""Every commit of a group, read from `__consumer_offsets` by an independent client."""

from __future__ import annotations

import struct
import uuid
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

_READ_S = 60.0


class Commit(NamedTuple):
    """One offset commit, in the order of the log. offset: None for one that was removed."""

    topic: str
    partition: int
    offset: int | None
    metadata: str


def commit_stream(bootstrap: str, group: str) -> list[Commit]:
    """Return the commits of a group, oldest first. A group's commits are all in one partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"trail-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,  # the log may end with a transaction's marker
            "isolation.level": "read_uncommitted",  # others may have left transactions open
            "auto.offset.reset": "earliest",
        }
    )
    try:
        topic = "__consumer_offsets"
        count = len(consumer.list_topics(topic, timeout=_READ_S).topics[topic].partitions)
        found: list[Commit] = []
        for partition in range(count):
            found += _read(consumer, TopicPartition(topic, partition, 0), group)
        return found
    finally:
        consumer.close()


def _read(consumer: Consumer, tp: TopicPartition, group: str) -> list[Commit]:
    """Up to where the log ends now: whoever commits meanwhile may do so without a pause."""
    _, end = consumer.get_watermark_offsets(tp, timeout=_READ_S)
    if not end:
        return []
    consumer.assign([tp])
    found: list[Commit] = []
    last = -1
    while last < end - 1:
        message = consumer.poll(_READ_S)
        assert message is not None, "the offsets topic is not read to its end"
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            if message.partition() == tp.partition:
                break  # behind the last record is a transaction's marker
            continue
        assert error is None, error
        last = message.offset()
        commit = _decode(message.key(), message.value(), group)
        if commit is not None:
            found.append(commit)
    return found


def _decode(key: bytes, value: bytes | None, group: str) -> Commit | None:
    """OffsetCommitKey.json version 0-1, OffsetCommitValue.json version 1-4."""
    (version,) = struct.unpack_from(">h", key)
    if version > 1:
        return None  # a group's own metadata
    name, at = _text(key, 2)
    topic, at = _text(key, at)
    (partition,) = struct.unpack_from(">i", key, at)
    if name != group:
        return None
    if value is None:
        return Commit(topic, partition, None, "")
    version, offset = struct.unpack_from(">hq", value)
    at = 10 + (4 if version >= 3 else 0)  # the leader epoch
    metadata = "" if version >= 4 else _text(value, at)[0]
    return Commit(topic, partition, offset, metadata)


def _text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length


def regressions(commits: list[Commit]) -> list[tuple[Commit, Commit]]:
    """Commits that are lower than the one before of the same partition."""
    last: dict[tuple[str, int], Commit] = {}
    found: list[tuple[Commit, Commit]] = []
    for commit in commits:
        if commit.offset is None:
            continue
        place = (commit.topic, commit.partition)
        before = last.get(place)
        if before is not None and before.offset is not None and commit.offset < before.offset:
            found.append((before, commit))
        last[place] = commit
    return found
