"""The request that addresses topics by id, as Kafka's ProduceRequest.json version 13 has it."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

import pytest
from aiokafka import errors
from aiokafka.structs import TopicPartition

from headgate.kafka.aiokafka_internals import MessageBatch, RequestHandler
from headgate.kafka.produce_request import (
    NOT_NOW,
    Fate,
    InconsistentTopicIdError,
    UnknownTopicIdError,
    classify,
    learn_error_codes,
    request_by_id,
)
from headgate.model.outcome import Reason

IDS = {"deals": b"\x11" * 16, "clicks": b"\x22" * 16}


class Built:
    """A builder of a batch with this content."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def record_count(self) -> int:
        return 1

    def _build(self) -> bytes:
        return self._content


class Sender:
    """The parts of aiokafka's sender that a request asks for."""

    class _txn_manager:
        transactional_id = None

    client = None
    _acks = -1
    _request_timeout_ms = 40_000
    _retry_backoff = 0.1


async def handler(
    ids: dict[str, bytes],
) -> tuple[RequestHandler, dict[TopicPartition, MessageBatch]]:
    places = [TopicPartition("deals", 0), TopicPartition("deals", 300), TopicPartition("clicks", 1)]
    batches = {}
    for place in places:
        batches[place] = batch = MessageBatch(place, Built(b"%d" % place.partition * 200), 1, 0)
        batch._retry_count = 1
        batch.topic_id = ids.get(place.topic, b"")
    return RequestHandler(Sender, batches, by_id, NOT_NOW), batches


def by_id(by_name: Any, addressed: Any) -> Any:
    return request_by_id(by_name, addressed, Sender._request_timeout_ms)


@pytest.mark.parametrize("newest", [13, 14])
async def test_a_broker_that_knows_topic_ids_gets_them(newest: int) -> None:
    sender, _ = await handler(IDS)
    request = sender.create_request().prepare({0: (3, newest)})
    assert (request.API_KEY, request.API_VERSION) == (0, 13)
    first, second, other = b"0" * 200, b"300" * 200, b"1" * 200
    expected = b"\0" + struct.pack(">hi", -1, 40_000) + b"\x03"  # no transaction; two topics
    expected += IDS["deals"] + b"\x03" + struct.pack(">i", 0) + b"\xc9\x01" + first + b"\0"
    expected += struct.pack(">i", 300) + b"\xd9\x04" + second + b"\0\0"
    expected += IDS["clicks"] + b"\x02" + struct.pack(">i", 1) + b"\xc9\x01" + other + b"\0\0"
    assert request.encode() == expected + b"\0"


@pytest.mark.parametrize(("ids", "newest"), [(IDS, 12), (IDS, 7), ({"deals": IDS["deals"]}, 13)])
async def test_without_ids_or_for_an_older_broker_topics_are_named(
    ids: dict[str, bytes], newest: int
) -> None:
    sender, _ = await handler(ids)
    request = sender.create_request().prepare({0: (0, newest)})
    assert request.API_VERSION == 7
    assert b"deals" in request.encode()


async def test_each_batch_ends_as_the_answer_says_of_it() -> None:
    learn_error_codes()
    sender, batches = await handler(IDS)
    request = sender.create_request().prepare({0: (3, 13)})

    def partition(number: int, error: int, offset: int, more: bytes = b"\x01\0\0") -> bytes:
        return struct.pack(">ihqqq", number, error, offset, -1, 0) + more

    blamed = b"\x02" + struct.pack(">i", 0) + b"\x04why\0" + b"\x04bad"
    leader = b"\x01\0\x01\0\x09" + bytes(8) + b"\0"  # a tagged field
    body = b"\x03" + IDS["clicks"] + b"\x02" + partition(1, 0, 77) + b"\0"
    body += IDS["deals"] + b"\x03" + partition(300, 87, -1, blamed + b"\0")
    body += partition(0, 100, -1, leader) + b"\0" + struct.pack(">i", 0) + b"\0"
    sender.handle_response(request.RESPONSE_TYPE.decode(BytesIO(body)))
    ends: dict[tuple[str, int], Any] = {
        (place.topic, place.partition): batch.future.exception() or batch.future.result().offset
        for place, batch in batches.items()
    }
    assert ends["clicks", 1] == 77
    assert ends["deals", 300].errno == 87
    assert isinstance(ends["deals", 0], UnknownTopicIdError)


@pytest.mark.parametrize("error", [UnknownTopicIdError(), InconsistentTopicIdError()])
def test_a_topic_of_another_id_is_certain_at_the_only_attempt(error: errors.KafkaError) -> None:
    verdict = classify(error, 1)
    assert (verdict.fate, verdict.reason) == (Fate.LATER, Reason.KAFKA_UNAVAILABLE)
    assert classify(error, 2).fate is Fate.UNDECIDED
