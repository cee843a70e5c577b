"""A partition with chunked events goes from owner to owner: none is lost, and few repeat."""

from __future__ import annotations

import random
from collections import Counter
from hashlib import sha256

import pytest

from headgate.consumer.assembler import Assembler, Bounds
from headgate.consumer.owned_partition import OwnedPartition
from headgate.consumer.received import Received
from headgate.core.consuming.ownership import Owned
from headgate.core.oversize.chunks import Head, headers_of
from unit.consumer.test_owned_partition import Read, StubAssignment

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


@pytest.mark.parametrize("seed", range(30))
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
