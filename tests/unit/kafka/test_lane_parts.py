"""The small decisions of lanes: what an error means, who is guilty, which codec, which topics."""

from __future__ import annotations

import random

import cramjam
import pytest
from aiokafka import errors
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from headgate.kafka.lane import Halving
from headgate.kafka.options import ClusterOptions, check_codec
from headgate.kafka.produce_request import (
    INVALID_RECORD,
    Fate,
    classify,
    learn_error_codes,
    refusal,
)
from headgate.kafka.producer import keep_zstd
from headgate.model.outcome import Reason


@pytest.mark.parametrize(
    ("error", "attempts", "fate", "reason"),
    [
        (errors.MessageSizeTooLargeError(), 1, Fate.REFUSED, Reason.TOO_LARGE),
        (errors.InvalidTimestampError(), 1, Fate.REFUSED, Reason.TIMESTAMP_OUT_OF_RANGE),
        (errors.TopicAuthorizationFailedError("t"), 1, Fate.REFUSED, Reason.BROKER_REFUSED),
        # The first attempt's answer was lost, so the second one's says nothing about it.
        (errors.MessageSizeTooLargeError(), 2, Fate.UNDECIDED, Reason.UNKNOWN),
        (errors.OutOfOrderSequenceNumber(), 2, Fate.UNDECIDED, Reason.UNKNOWN),
        (errors.OutOfOrderSequenceNumber(), 1, Fate.RESEND, Reason.BROKER_REFUSED),
        (errors.ProducerFenced(), 1, Fate.RESEND, Reason.BROKER_REFUSED),
        # The broker reports it when something broke inside, also after an append.
        (errors.UnknownError(), 1, Fate.UNDECIDED, Reason.UNKNOWN),
        (errors.KafkaError(), 1, Fate.UNDECIDED, Reason.UNKNOWN),
        (errors.KafkaError(), 0, Fate.RESEND, Reason.KAFKA_UNAVAILABLE),
    ],
)
def test_classify(error: BaseException, attempts: int, fate: Fate, reason: Reason) -> None:
    verdict = classify(error, attempts)
    assert (verdict.fate, verdict.reason) == (fate, reason)
    assert verdict.label == type(error).__name__


@pytest.mark.parametrize(
    ("error", "one_is_guilty"),
    [
        (errors.MessageSizeTooLargeError(), True),
        (errors.InvalidTimestampError(), True),
        (errors.TopicAuthorizationFailedError("t"), False),
        (errors.PolicyViolationError(), False),
    ],
)
def test_guilt_of_one_or_of_all(error: BaseException, one_is_guilty: bool) -> None:
    assert classify(error, 1).one_is_guilty is one_is_guilty


def test_invalid_record_is_told_from_an_unknown_error() -> None:
    learn_error_codes()
    verdict = classify(errors.for_code(INVALID_RECORD)(), 1)
    assert (verdict.fate, verdict.label) == (Fate.REFUSED, "InvalidRecordError")
    assert "INVALID_RECORD" in refusal(verdict, 1, 2).detail


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.randoms(use_true_random=False))
def test_halving_finds_exactly_the_guilty(guilty: list[bool], dice: random.Random) -> None:
    queue, published, refused, batches = list(enumerate(guilty)), [], [], 0
    halving = Halving()
    while queue:
        batches += 1
        batch = queue[: min(halving.limit, dice.randrange(1, 400))]
        if not any(is_guilty for _, is_guilty in batch):
            published += [number for number, _ in batch]
            del queue[: len(batch)]
            halving.accepted(len(batch))
        elif halving.refused(len(batch)):
            refused.append(queue.pop(0)[0])
    assert published == [number for number, is_guilty in enumerate(guilty) if not is_guilty]
    assert refused == [number for number, is_guilty in enumerate(guilty) if is_guilty]


def test_halving_is_cheap_for_one_guilty_record_of_many() -> None:
    queue, batches, halving = [False] * 700 + [True] + [False] * 1300, 0, Halving()
    while queue:
        batches += 1
        count = min(halving.limit, len(queue))
        if not any(queue[:count]):
            del queue[:count]
            halving.accepted(count)
        elif halving.refused(count):
            del queue[0]
    assert batches < 50
    assert halving.limit > 10**9


def test_unusable_codec_is_named_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    check_codec("main", "zstd")
    check_codec("main", "none")
    with pytest.raises(ValueError, match=r"clusters\.main\.compression must be one of none"):
        check_codec("main", "brotli")
    monkeypatch.setattr("aiokafka.codec.has_zstd", lambda: False)  # cramjam is not installed
    with pytest.raises(ValueError, match="needs the package cramjam"):
        check_codec("main", "zstd")


@pytest.mark.parametrize(
    ("delivery_ms", "request_ms"), [(120_000, 30_000), (20_000, 10_000), (500, 1_000)]
)
def test_two_requests_fit_into_the_delivery_timeout(delivery_ms: int, request_ms: int) -> None:
    assert ClusterOptions("x", delivery_timeout_ms=delivery_ms).request_timeout_ms == request_ms


def test_the_kept_compressor_writes_frames_that_anybody_reads() -> None:
    keep_zstd()
    rng = random.Random(1)
    for records in (1, 2, 40, 1):  # each a frame of its own, whatever went before
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=4,  # zstd
            is_transactional=0,
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            batch_size=1 << 20,
        )
        values = [rng.randbytes(40).hex().encode() * 9 for _ in range(records)]
        for at, value in enumerate(values):
            assert builder.append(at, 1, b"k", value, []) is not None
        batch = builder.build()
        assert len(batch) < sum(map(len, values))
        plain = bytes(cramjam.zstd.decompress(batch[61:]))  # a batch's header ends there (KIP-98)
        assert all(value in plain for value in values)
        assert [record.value for record in DefaultRecordBatch(batch)] == values
