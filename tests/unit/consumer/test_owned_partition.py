"""One partition's events: side by side for different keys, one after the other for each key."""

from __future__ import annotations

import random
from hashlib import sha256
from typing import NamedTuple

import pytest

from headgate.consumer.assembler import Assembler
from headgate.consumer.owned_partition import OwnedPartition
from headgate.consumer.received import Received
from headgate.core.consuming.ownership import Owned
from headgate.core.oversize.chunks import Head, headers_of


class Read(NamedTuple):
    offset: int
    key: bytes | None
    topic: str = "orders"
    partition: int = 0
    value: bytes | None = b"{}"
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int = 0


class StubAssignment:
    def __init__(self) -> None:
        self.again: list[Received] = []
        self.ended = 0

    def ready(self, partition: OwnedPartition) -> None: ...

    def done(self, received: Received) -> None:
        self.ended += 1

    def failed(
        self, partition: OwnedPartition, received: Received, error: BaseException | str
    ) -> None:
        self.again.append(received)


def owned_partition() -> tuple[OwnedPartition, StubAssignment]:
    assignment = StubAssignment()
    return OwnedPartition(Owned("orders", 0, 1), assignment, None), assignment


def handed_out(partition: OwnedPartition) -> list[Received]:
    found: list[Received] = []
    while (received := partition.hand_out()) is not None:
        found.append(received)
    return found


def test_one_event_of_a_key_at_a_time() -> None:
    partition, _ = owned_partition()
    partition.take([Read(0, b"a"), Read(1, b"b"), Read(2, b"a"), Read(3, None), Read(4, None)])
    first = handed_out(partition)
    assert [one.offset for one in first] == [0, 1, 3, 4]
    first[0].done()
    assert [one.offset for one in handed_out(partition)] == [2]


def test_a_second_done_is_without_effect() -> None:
    partition, assignment = owned_partition()
    partition.take([Read(0, b"a"), Read(1, b"a")])
    (one,) = handed_out(partition)
    one.done()
    one.done()
    one.failed("late")
    assert assignment.ended == 1
    assert not assignment.again
    assert partition.low_water == 1


def test_what_is_forbidden_is_not_handed_out() -> None:
    partition, _ = owned_partition()
    partition.take([Read(0, b"a")])
    partition.is_forbidden = True
    assert partition.hand_out() is None
    partition.is_forbidden = False
    assert partition.hand_out() is not None


@pytest.mark.parametrize("start", [0, 1, 7])
def test_nothing_of_a_chunked_event_is_committed_before_it_is_done(start: int) -> None:
    """Also of one whose first chunk is the very first record of its log."""
    partition = OwnedPartition(Owned("orders", 0, 1), StubAssignment(), Assembler())
    digest = sha256(b"whole").digest()
    first, second = (tuple(headers_of(Head(b"set", at, 2, 5, digest))) for at in range(2))
    partition.take([
        Read(start, b"a", value=b"who", headers=first),
        Read(start + 1, b"b"),
        Read(start + 2, b"a", value=b"le", headers=second),
    ])  # fmt: skip
    other, whole = handed_out(partition)
    assert (other.offset, whole.value) == (start + 1, b"whole")
    other.done()
    assert partition.low_water == start
    whole.done()
    assert partition.low_water == start + 3


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_ends_keeps_each_keys_order(seed: int) -> None:
    chance = random.Random(seed)
    partition, assignment = owned_partition()
    keys = [None, b"a", b"b", b"c"]
    offset, seen, in_flight, undone = 0, list[Received](), list[Received](), set[int]()
    for _ in range(300):
        step = chance.random()
        if step < 0.3:
            count = chance.randint(1, 4)
            records = [Read(offset + each, chance.choice(keys)) for each in range(count)]
            undone.update(range(offset, offset + count))
            offset += count
            partition.take(records)
        elif step < 0.6:
            if (received := partition.hand_out()) is not None:
                assert received.key is None or all(one.key != received.key for one in in_flight), (
                    "two of a key at once"
                )
                in_flight.append(received)
        elif in_flight and step < 0.9:
            received = in_flight.pop(chance.randrange(len(in_flight)))
            undone.discard(received.offset)
            seen.append(received)
            received.done()
        elif in_flight:
            received = in_flight.pop(chance.randrange(len(in_flight)))
            received.failed("not now")
            partition.again(assignment.again.pop())
        assert partition.low_water == (min(undone) if undone else offset or None)
    for key in (b"a", b"b", b"c"):
        offsets = [one.offset for one in seen if one.key == key]
        assert offsets == sorted(offsets)
