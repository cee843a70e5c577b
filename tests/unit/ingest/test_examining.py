"""Examining: every event ends once, each key's in order, whoever waits, fails, drops or dies."""

from __future__ import annotations

import asyncio
import random

import orjson
import pytest

from headgate.formats.json_text import KeyReader
from headgate.ingest.records import Validate
from headgate.model.content import (
    INLINE_BYTES,
    Comparison,
    Content,
    ContentCheck,
    Fallback,
    examine,
    examine_here,
)
from headgate.model.outcome import Failure, Reason
from headgate.model.publish import Publish, Record
from headgate.model.route import Route
from headgate.model.schema import schema_of
from headgate.offload.helper_process import HelperProcess
from support.gateway.fakes import common, policy, topic_state
from support.gateway.held_helper import HeldHelper
from support.kafka.lane_history import changed

JSON = b"application/json"
SCHEMA = b'{"properties":{"n":{"type":"integer"}}}'
CANONICAL = ContentCheck(None, Comparison(b"rules", ("/at",), 4_000_000))
BOTH = CANONICAL._replace(schema=schema_of(SCHEMA))


class Ends:
    def __init__(self) -> None:
        self.fitting: list[Publish] = []
        self.unfitting: dict[Publish, Failure] = {}
        self.fallbacks: list[tuple[str, Fallback]] = []
        self.registries: asyncio.Queue[Publish] = asyncio.Queue()

    def one(self, publish: Publish) -> None:
        self.fitting.append(publish)
        self.registries.put_nowait(publish)

    def refused(self, publish: Publish, failure: Failure) -> None:
        assert publish not in self.unfitting
        self.unfitting[publish] = failure
        self.registries.put_nowait(publish)

    def count(self, topic: str, fallback: Fallback) -> None:
        self.fallbacks.append((topic, fallback))


def document(n: object, large: bool) -> bytes:
    padding = "x" * (INLINE_BYTES if large else 10)
    return orjson.dumps({"n": n, "padding": padding})


def content(text: bytes) -> Content:
    return Content(text, JSON, text)


def publish_of(text: bytes | None, key: bytes | None = b"k", index: int = 0) -> Publish:
    return Publish(Record("deals", 0, key, text, [], 0), 0, None, index, None)


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
def helper() -> HeldHelper:
    return HeldHelper()


@pytest.fixture
def examining(ends: Ends, helper: HeldHelper) -> Validate:
    return Validate(ends.one, ends.refused, helper, ends.count)


async def test_a_small_event_goes_on_at_once(examining: Validate, ends: Ends) -> None:
    one, other = publish_of(b'{"n":1,"at":1}'), publish_of(b' {"at":2, "n":1}')
    for each in (one, other):
        assert each.record.value is not None
        examining.content(each, CANONICAL, content(each.record.value))
    assert ends.fitting == [one, other]
    assert one.digest == other.digest
    assert one.digest is not None


async def test_a_small_event_waits_behind_a_large_one_of_its_key(
    examining: Validate, ends: Ends, helper: HeldHelper
) -> None:
    large, small, other = publish_of(b""), publish_of(b""), publish_of(b"", b"other")
    examining.content(large, CANONICAL, content(document(1, large=True)))
    examining.content(small, CANONICAL, content(document(2, large=False)))
    examining.content(other, CANONICAL, content(document(3, large=False)))
    examining.event(tombstone := publish_of(None), CANONICAL, b"")
    assert ends.fitting == [other]
    await helper.answer()
    assert ends.fitting == [other, large, small, tombstone]


async def test_what_has_its_digest_waits_behind_it_too(
    examining: Validate, ends: Ends, helper: HeldHelper
) -> None:
    """The scanner made it: nothing of the event is looked at again, but it must not overtake."""
    large, small, other = publish_of(b""), publish_of(b"-", index=1), publish_of(b"-", b"other")
    assert not examining.waiting
    examining.content(large, CANONICAL, content(document(1, large=True)))
    assert examining.waiting
    given = common(
        route=Route(policy(), topic_state("deals"), KeyReader.parse(()), 128, check=CANONICAL)
    )
    for each in (small, other):
        each.digest, each.common = b"d" * 16, given
    examining.take([small], [b"", b""])
    examining.take([other], [b""])
    assert ends.fitting == [other]
    await helper.answer()
    assert ends.fitting == [other, large, small]
    assert small.digest == b"d" * 16
    assert not examining.waiting


async def test_without_the_process_bytes_are_compared_and_that_is_counted(
    examining: Validate, ends: Ends, helper: HeldHelper
) -> None:
    lost, again = publish_of(b""), publish_of(b"")
    for each in (lost, again):
        examining.content(each, CANONICAL, content(document(1, large=True)))
    await helper.answer(lost=True)
    await helper.answer()
    assert ends.fitting == [lost, again]
    assert ends.fallbacks == [("deals", Fallback.POOL)]
    assert lost.digest != again.digest


async def test_without_the_process_the_schema_holds_all_the_same(
    examining: Validate, ends: Ends, helper: HeldHelper
) -> None:
    right, wrong = publish_of(b""), publish_of(b"")
    examining.content(right, BOTH, content(document(1, large=True)))
    examining.content(wrong, BOTH, content(document("1", large=True)))
    await helper.answer(lost=True)
    await helper.answer(lost=True)
    assert ends.fitting == [right]
    assert ends.unfitting[wrong].reason is Reason.SCHEMA_VIOLATION


def test_many_violations_of_a_small_event_are_listed_elsewhere() -> None:
    """The engine lists all or none: 20,000 of them would hold up the event loop for 0.3 s."""
    text = b"[" + b",".join([b"1"] * 20_000) + b"]"
    orders = ContentCheck(schema_of(b'{"items":{"type":"string"}}'), None)
    assert examine_here(orders, content(text)) is None
    failure = examine(orders, content(text)).failure
    assert failure is not None
    assert failure.figures is not None
    assert len(failure.figures["violations"]) == 20


def test_bytes_that_are_no_json_do_not_fit_a_schema() -> None:
    opaque = Content(b"\x00", b"application/avro", None)
    for found in (examine(BOTH, opaque), examine_here(BOTH, opaque)):
        assert found is not None
        assert found.failure is not None
        assert found.failure.reason is Reason.SCHEMA_VIOLATION
        assert "not JSON" in found.failure.detail


@pytest.mark.parametrize("seed", range(30))
async def test_order_and_ends_in_any_course(
    seed: int, examining: Validate, ends: Ends, helper: HeldHelper
) -> None:
    chance = random.Random(seed)
    entered: list[Publish] = []
    bad: set[Publish] = set()
    for index in range(60):
        what = chance.random()
        publish = publish_of(b"", chance.choice([b"a", b"b", None]), index)
        if what < 0.5:
            entered.append(publish)
            is_bad = chance.random() < 0.2
            if is_bad:
                bad.add(publish)
            text = document("x" if is_bad else index, large=chance.random() < 0.4)
            examining.content(publish, BOTH, content(text))
        elif what < 0.6:
            publish.record = changed(publish.record, value=None)
            entered.append(publish)
            examining.event(publish, BOTH, b"")
        elif what < 0.9 and helper.asked:
            await helper.answer(chance.randrange(len(helper.asked)), lost=chance.random() < 0.2)
        elif entered:
            dropped = chance.choice(entered)
            if dropped not in ends.fitting and dropped not in ends.unfitting:
                dropped.dropped = True
                examining.drop(dropped)
    while helper.asked:
        await helper.answer(chance.randrange(len(helper.asked)))
    assert set(ends.unfitting) == {each for each in bad if not each.dropped}
    good = [each for each in entered if each not in bad and not each.dropped]
    for key in (b"a", b"b"):
        fitting = [each.index for each in ends.fitting if each.record.key == key]
        assert fitting == [each.index for each in good if each.record.key == key]
    assert {each.index for each in ends.fitting} == {each.index for each in good}


async def test_the_real_process_finds_what_would_be_found_here(ends: Ends) -> None:
    helper = HelperProcess(patience_s=60.0)
    examining = Validate(ends.one, ends.refused, helper, ends.count)
    right, wrong = publish_of(b""), publish_of(b"")
    texts = document(1, large=True), document("1", large=True)
    for each, text in zip((right, wrong), texts, strict=True):
        examining.content(each, BOTH, content(text))
    async with asyncio.timeout(60):
        for _ in (right, wrong):
            await ends.registries.get()
    helper.close()
    assert helper.is_running is False
    assert ends.fallbacks == []
    assert right.digest == examine(BOTH, content(texts[0])).digest
    assert ends.unfitting[wrong] == examine(BOTH, content(texts[1])).failure
