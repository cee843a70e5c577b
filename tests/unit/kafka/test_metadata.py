"""Kafka's metadata, read by hand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.errors import IncompatibleBrokerVersion
from hypothesis import given
from hypothesis import strategies as st

from headgate.kafka.wire import (
    Metadata,
    PartitionSeen,
    Reader,
    TopicMetadata,
    decoded,
    read_metadata,
    varint,
)

ID = b"0123456789abcdef"
# Built by hand from MetadataResponse.json, version 12: partition 1 comes before partition 0.
SECOND = b"\0\0" + b"\0\0\0\1" + b"\0\0\0\2" + b"\0\0\0\3"
SECOND += b"\3" + b"\0\0\0\1\0\0\0\2" + b"\2" + b"\0\0\0\1" + b"\1" + b"\0"
FIRST = b"\0\5" + b"\0\0\0\0" + b"\xff\xff\xff\xff" + b"\0\0\0\3"
FIRST += b"\4" + bytes(12) + b"\1" + b"\2" + b"\0\0\0\1" + b"\0"
TOPIC = b"\0\5" + b"\3ab" + ID + b"\0" + b"\3" + SECOND + FIRST + b"\x80\0\0\0" + b"\0"
BROKER = b"\0\0\0\1" + b"\2h" + b"\0\0\x23\x84" + b"\0" + b"\1\7\2xy"
ANSWER = b"\0\0\0\0" + b"\2" + BROKER + b"\2c" + b"\0\0\0\1" + b"\2" + TOPIC + b"\0"


class Node:
    """As much of an aiokafka client as is asked for. versions: that it takes."""

    def __init__(self, versions: dict[int, tuple[int, int]]) -> None:
        self._versions = versions
        self.asked = b""

    async def send(self, _node: int, request: Any) -> Reader:
        self.asked = request.prepare(self._versions).encode()
        return Reader(ANSWER)


async def test_an_answer_is_decoded() -> None:
    found = await decoded(Reader(ANSWER))
    partitions = (PartitionSeen(-1, 3, 0), PartitionSeen(2, 2, 1))
    topic = TopicMetadata(5, ID, partitions)
    assert found == Metadata((1,), "c", {"ab": topic})
    assert (topic.uuid, topic.leaders) == ("MDEyMzQ1Njc4OWFiY2RlZg", (-1, 2))
    assert topic.replication_factor == 2
    assert [found.leader("ab", number) for number in range(3)] == [-1, 2, -1]
    assert found.leader("other", 0) == -1
    assert TopicMetadata(3, bytes(16), ()).replication_factor == 0


@pytest.mark.parametrize(
    ("topics", "asked"),
    [
        (None, b"\0" + b"\0\0" + b"\0"),  # all
        (["ab"], b"\2" + bytes(16) + b"\3ab" + b"\0" + b"\0\0" + b"\0"),
        ([], b"\1" + b"\0\0" + b"\0"),
    ],
)
async def test_what_is_asked_creates_nothing(topics: list[str] | None, asked: bytes) -> None:
    node = Node({3: (0, 13)})
    await read_metadata(node, 1, topics)  # type: ignore[arg-type]
    assert node.asked == asked


async def test_a_broker_that_knows_no_topic_ids_is_named_as_too_old() -> None:
    with pytest.raises(IncompatibleBrokerVersion, match="topic ids need Kafka"):
        await read_metadata(Node({3: (0, 11)}), 1)  # type: ignore[arg-type]


async def test_thousands_of_topics_are_decoded_in_turns_of_the_event_loop() -> None:
    topics = b"".join(
        b"\0\0\5%04d" % number + ID + b"\0\1" + b"\x80\0\0\0\0" for number in range(3000)
    )
    body = b"\0\0\0\0\1" + b"\2c" + b"\0\0\0\1" + varint(3001) + topics + b"\0"
    decoding = asyncio.ensure_future(decoded(Reader(body)))
    turns = 0
    while not decoding.done():
        await asyncio.sleep(0)
        turns += 1
    assert len(decoding.result().topics) == 3000
    assert turns >= 6


@given(st.integers(min_value=0, max_value=2**35))
def test_varint(number: int) -> None:
    encoded, rest = bytearray(), number
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    assert Reader(bytes(encoded)).varint() == number
    assert varint(number) == encoded
