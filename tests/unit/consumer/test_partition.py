"""One partition's events: side by side for different keys, one after the other for each key."""

from __future__ import annotations

import random
from collections import Counter
from hashlib import sha256
from typing import NamedTuple

import pytest

from headgate.consumer.assembler import Assembler, Bounds
from headgate.consumer.ownership import Owned
from headgate.consumer.partition import OwnedPartition, Received
from headgate.oversize.chunks import Head, headers_of
from support.scale import examples


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


# A partition with chunked events goes from owner to owner: none is lost, and few repeat.


PREFETCH, STEP = 10, 5
BOUNDS = Bounds(max_gap=100)  # an owner reads as much in its term, or nobody ever got further


def written(chance: random.Random, events: int) -> list[Read]:
    """A log of single records and interleaved sets, some of which are never whole."""
    log: list[Read] = []
    open_sets: list[list[tuple[bytes, bytes, tuple[tuple[str, bytes], ...]]]] = []
    offset = 0
    for number in range(events):
        key, value = b"%d" % chance.randrange(5), b"%d" % number * 3
        pieces = [value[at : at + 2] for at in range(0, len(value), 2)]
        digest = sha256(value).digest()
        set_id, total = b"%d" % number, len(pieces)
        heads = [Head(set_id, at, total, len(value), digest) for at in range(total)]
        if chance.random() < 0.5:
            chunks = [
                (key, piece, tuple(headers_of(head)))
                for piece, head in zip(pieces, heads, strict=True)
            ]
            # Its gateway dies between two chunks now and then.
            open_sets.append(chunks if chance.random() < 0.8 else chunks[:-1])
        else:
            open_sets.append([(key, value, ())])
        while len(open_sets) > 6 or (number == events - 1 and open_sets):
            one = chance.choice(open_sets)
            key, piece, headers = one.pop(0)
            log.append(Read(offset, key, value=piece, headers=headers))
            offset += chance.choice([1, 1, 1, 3])  # markers of transactions take offsets, too
            if not one:
                open_sets.remove(one)
    return log


class Owner:
    """One term of ownership over the log, as `StubAssignment` goes about it."""

    def __init__(self, log: list[Read], committed: int, done_below: int) -> None:
        self.assembler = Assembler(BOUNDS, lambda: 0.0)
        self.work = StubAssignment()
        self.partition = OwnedPartition(Owned("orders", 0, 1), self.work, self.assembler)
        self.partition.begin(done_below)
        self.unread = [one for one in log if one.offset >= committed]
        self.in_flight: list[Received] = []

    def read(self) -> None:
        if self.unread and len(self.partition.progress) <= PREFETCH - STEP:
            self.partition.take(self.unread[:STEP])
            del self.unread[:STEP]

    def commit(self, before: tuple[int, int]) -> tuple[int, int]:
        offset, done_below = self.partition.low_water, self.partition.done_below
        if offset is None:
            return before
        assert offset >= before[0]
        assert done_below >= before[1]
        return offset, max(offset, done_below)


@pytest.mark.parametrize("seed", range(examples(40)))
def test_none_is_lost_and_at_most_prefetch_events_come_again(seed: int) -> None:
    chance = random.Random(seed)
    log = written(chance, 400)
    every = Assembler(BOUNDS, lambda: 0.0)
    whole = [event for one in log if (event := every.add(one)) is not None]
    done: Counter[int] = Counter()
    first_ends: list[tuple[bytes | None, int]] = []
    mark, owners = (0, 0), 0
    while len(done) < len(whole):
        owners += 1
        assert owners < 300, "no owner gets further"
        owner = Owner(log, *mark)
        may_repeat, again = set(done), set[int]()
        for _ in range(chance.randrange(60, 300)):
            step = chance.random()
            if step < 0.2:
                owner.read()
            elif step < 0.6:
                if (received := owner.partition.hand_out()) is not None:
                    again |= {received.offset} & may_repeat
                    owner.in_flight.append(received)
            elif step < 0.9 and owner.in_flight:
                received = owner.in_flight.pop(chance.randrange(len(owner.in_flight)))
                if received.offset not in done:
                    first_ends.append((received.key, received.offset))
                done[received.offset] += 1
                received.done()
            elif step < 0.95 and owner.in_flight:
                owner.in_flight.pop(chance.randrange(len(owner.in_flight))).failed("not now")
                owner.partition.again(owner.work.again.pop())
            else:
                mark = owner.commit(mark)
        assert len(again) <= PREFETCH
        mark = owner.commit(mark)
    assert set(done) == {event.offset for event in whole}
    assert owners > 5
    assert max(done.values()) > 1, "nothing was left to repeat, so nothing was tested"
    for key in {event.key for event in whole}:
        offsets = [offset for one, offset in first_ends if one == key]
        assert offsets == sorted(offsets)


@pytest.mark.parametrize("seed", range(10))
def test_an_owner_that_could_not_commit_loses_nothing(seed: int) -> None:
    """Killed at any time; what was done since the last commit comes again."""
    chance = random.Random(seed)
    log = written(chance, 60)
    every = Assembler(BOUNDS, lambda: 0.0)
    whole = {event.offset for one in log if (event := every.add(one)) is not None}
    done, mark, owners = set[int](), (0, 0), 0
    while not whole <= done:
        owners += 1
        assert owners < 1000, "no owner gets further"
        owner = Owner(log, *mark)
        for _ in range(chance.randrange(200)):
            owner.read()
            if (received := owner.partition.hand_out()) is not None:
                owner.in_flight.append(received)
            if owner.in_flight and chance.random() < 0.7:
                received = owner.in_flight.pop(chance.randrange(len(owner.in_flight)))
                done.add(received.offset)
                received.done()
            if chance.random() < 0.1:
                mark = owner.commit(mark)
    assert done == whole
