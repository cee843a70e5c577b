"""What a poll of a cluster makes of nodes that do not answer, and of what its topics are."""

from __future__ import annotations

import struct
from io import BytesIO
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaTimeoutError

from headgate.kafka.group_reader import Found, GroupReader, ListedGroup, describe_classic
from headgate.kafka.groups import CommittedOffset, Described, GroupMember, Partition
from headgate.kafka.options import ClusterOptions
from headgate.kafka.wire import NO_TAGS, NULL, Reader, array, text

TOPIC, GROUP = "orders", "billing"
PLACE = Partition(TOPIC, 0)
# A topic with one partition: leader 2, three replicas, all in sync (MetadataResponse.json).
_NODES = array(bytes([0, 0, 0, one]) for one in (1, 2, 3))
_PARTITION = bytes(6) + bytes([0, 0, 0, 2]) + bytes(4) + _NODES + _NODES + array([]) + NO_TAGS
_TOPIC = bytes(2) + text(TOPIC) + b"1" * 16 + b"\0" + array([_PARTITION]) + bytes(4) + NO_TAGS
METADATA = bytes(4) + array([]) + NULL + bytes(4) + array([_TOPIC]) + NO_TAGS


class Nodes:
    """As much of an aiokafka client as a reader needs. silent: nodes that cannot be reached."""

    def __init__(self, *silent: int, settings: dict[str, str] | None = None) -> None:
        self.cluster = self
        self._silent = silent
        self._settings = settings or {}

    def brokers(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(nodeId=node) for node in (1, 2, 3)]

    async def force_metadata_update(self) -> bool:
        return True

    async def send(self, node: int, request: Any) -> Any:
        if node in self._silent:
            raise KafkaTimeoutError
        topics = [(0, "", 2, TOPIC, [(name, value) for name, value in self._settings.items()])]
        answers: dict[int, Any] = {
            2: {PLACE: Found(-1, 5)},
            3: Reader(METADATA),
            9: {GROUP: {PLACE: CommittedOffset(3)}},
            10: {GROUP: 2},
            15: {GROUP: Described("classic", "Empty")},
            16: (0, [ListedGroup(GROUP, "consumer", "Empty", "classic")] if node == 2 else []),
            32: SimpleNamespace(resources=topics),
        }
        return answers[request.API_KEY]


def reader_of(nodes: Nodes) -> GroupReader:
    reader = GroupReader(ClusterOptions("127.0.0.1:1"))
    reader._client = cast(AIOKafkaClient, nodes)
    return reader


@pytest.mark.parametrize("silent", [1, 3])
async def test_one_node_that_cannot_be_reached_hides_no_other(silent: int) -> None:
    reader = reader_of(Nodes(silent))
    for _ in range(4):  # each poll begins with another node
        poll = await reader.poll()
        assert not poll.is_whole
        assert poll.stored == {GROUP: {PLACE: CommittedOffset(3)}}
        assert poll.logs == {PLACE: (5, 5)}


@pytest.mark.parametrize(
    ("policy", "kept_ms"), [("delete", 600), ("compact,delete", 600), ("compact", -1)]
)
async def test_what_is_only_compacted_is_kept_for_ever(policy: str, kept_ms: int) -> None:
    settings = {"retention.ms": "600", "cleanup.policy": policy}
    poll = await reader_of(Nodes(settings=settings)).poll()
    assert poll.topics[TOPIC].retention_ms == kept_ms


def member_with(subscription: bytes) -> GroupMember:
    who = text("m-1") + NULL + text("app") + text("/10.0.0.1")
    subscribed = bytes([len(subscription) + 1]) + subscription
    member = who + subscribed + b"\1" + NO_TAGS
    group = struct.pack(">h", 0) + text(GROUP) + text("Stable") + text("consumer") + text("range")
    answer = bytes(4) + array([group + array([member]) + bytes(4) + NO_TAGS])
    (found,) = describe_classic([GROUP]).RESPONSE_TYPE.decode(BytesIO(answer))[GROUP].members
    return found


def test_the_subscription_of_a_classic_member_is_read() -> None:
    names = b"".join(struct.pack(">h", len(name)) + name for name in (b"orders", b"deals"))
    for version in (0, 3):  # later versions only add to the end
        subscription = struct.pack(">hi", version, 2) + names + b"\xff\xff\xff\xff"
        assert member_with(subscription).subscribed == {"orders", "deals"}
    assert member_with(struct.pack(">hi", 1, 0)).subscribed == frozenset()
    assert member_with(b"").subscribed is None, "the group is not stable"
    assert member_with(b"\0\1\0\0\0\7").subscribed is None, "a client's own bytes"


def test_a_member_whose_assignment_nobody_can_read_owns_nothing() -> None:
    """It may be any client's own bytes: they cost no other group its poll."""
    who = text("m-1") + NULL + text("app") + text("/10.0.0.1")
    member = who + b"\1" + b"\4\0\0\7" + NO_TAGS  # no subscription, three bytes of assignment
    group = struct.pack(">h", 0) + text(GROUP) + text("Stable") + text("consumer") + text("range")
    answer = bytes(4) + array([group + array([member]) + bytes(4) + NO_TAGS])
    found = describe_classic([GROUP]).RESPONSE_TYPE.decode(BytesIO(answer))
    assert found[GROUP].members == (GroupMember("m-1", "app", "/10.0.0.1", frozenset()),)
