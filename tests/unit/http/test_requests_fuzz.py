"""Whatever request the native way accepts, aiohttp reads the same; C and Python find the same.

A longer search: `make fuzz`.
"""

from __future__ import annotations

import asyncio
import random
from typing import NamedTuple

import pytest
from aiohttp.http_exceptions import HttpProcessingError

from headgate.native import plain
from headgate.native.chosen import framed
from support.fuzz.readers import Aiohttp, Read, Server
from support.fuzz.requests import Kind, kind, mutated, request
from support.fuzz.rounds import Counts, main

KINDS = 12  # of heads that a round knows, or tried to
CONVERSATIONS = 6
BUFFERS = 3000  # of a round
COMPARED_AT_ONCE = 24


class Run(NamedTuple):
    """Bytes that were accepted, and what was read of them."""

    data: bytes
    read: list[Read]


class Round:
    """One server, the heads it has learned, and what the native way accepts of their like."""

    def __init__(self, seed: int) -> None:
        self._some = random.Random(seed)
        self._chance = self._some.random
        self._server = Server(self._some.choice([1024, 8190]))
        self._aiohttp = Aiohttp(self._server)
        self._runs: list[Run] = []
        self._waiting = 0
        self.tried = self.accepted = self.compared = 0

    async def search(self) -> Counts:
        kinds = [kind(self._some) for _ in range(KINDS)]
        for one in kinds:
            await self._converse([request(self._some, self._chance, one)])
        for _ in range(CONVERSATIONS):
            await self._converse(self._conversation(kinds))
        for _ in range(BUFFERS):
            self._offer(kinds)
        self._compare()
        return Counts(self.tried, self.accepted, self.compared)

    async def _converse(self, chunks: list[bytes]) -> None:
        """Send them over a connection, which has their heads learned."""
        read = await self._server.converse(chunks, self._some.randint(0, 6))
        aiohttp = Aiohttp(self._server)
        expected = aiohttp.converse(chunks)
        if aiohttp.is_upgraded:
            read = read[: len(expected)]
        assert read == expected, f"sent {chunks}\nread {read}\naiohttp reads {expected}"

    def _conversation(self, kinds: list[Kind]) -> list[bytes]:
        """Requests of two kinds, one in each read, or in reads of any size."""
        some, chance, requests = self._some, self._chance, list[bytes]()
        these = some.choices(kinds, k=2)
        for _ in range(some.randint(2, 12)):
            one = request(some, chance, some.choice(these))
            requests.append(mutated(some, chance, one) if chance() < 0.1 else one)
        return requests if chance() < 0.6 else cut(some, b"".join(requests))

    def _offer(self, kinds: list[Kind]) -> None:
        """Give the native way some requests in one read."""
        chance, requests = self._chance, list[bytes]()
        for _ in range(1 + int(chance() * chance() * 10)):
            one = request(self._some, chance, kinds[int(chance() * len(kinds))])
            requests.append(mutated(self._some, chance, one) if chance() < 0.4 else one)
        if chance() < 0.2:
            requests[-1] = requests[-1][: int(chance() * len(requests[-1]))]
        data, begin, at = b"".join(requests), 0, 0
        for one in requests:
            if at <= begin < len(data):
                at = begin + self._receive(data[begin:])
            begin += len(one)

    def _receive(self, data: bytes) -> int:
        """How many bytes are accepted."""
        taken = self._server.front.taken
        taken.clear()
        rest = self._server.native.receive(data)
        used, at = len(data) - len(rest), 0
        for _ in taken:
            at += self._twins(data[at:])
        assert at == used, (at, used, data)
        if rest:
            self._twins(rest)
        self.tried += len(taken) + bool(rest)
        self.accepted += len(taken)
        if taken:
            self._runs.append(Run(data[:used], taken.copy()))
            self._waiting += len(taken)
            if self._waiting >= COMPARED_AT_ONCE:
                self._compare()
        return used

    def _twins(self, data: bytes) -> int:
        """Where its first request ends."""
        expected = plain.framed(data)
        found = framed(data)
        assert found == expected, f"C: {found}\nPython: {expected}\nof: {data!r}"
        return 0 if found is None else found[3]

    def _compare(self) -> None:
        """What was accepted, with what aiohttp's parser reads of the same bytes."""
        runs, self._runs, self._waiting = self._runs, [], 0
        if not self._is_same(self._aiohttp, runs):
            for run in runs:
                self._explain(run)
            raise AssertionError(f"only one behind the other they are read otherwise: {runs}")
        self.compared += sum(len(run.read) for run in runs)

    def _is_same(self, aiohttp: Aiohttp, runs: list[Run]) -> bool:
        try:
            read = aiohttp.read(b"".join(run.data for run in runs))
        except (AssertionError, HttpProcessingError):
            return False
        return read == [one for run in runs for one in run.read]

    def _explain(self, run: Run) -> None:
        if not self._is_same(Aiohttp(self._server), [run]):
            said = f"the native way accepts {run.data!r}\nas {run.read}"
            read = Aiohttp(self._server).read(run.data)
            assert read == run.read, f"{said}\naiohttp reads {read}"
            raise AssertionError(said)


def cut(some: random.Random, data: bytes) -> list[bytes]:
    """In reads of any size."""
    chunks = []
    while data:
        size = some.choice([1, 40, 200, 3000, some.randint(1, 500)])
        chunks.append(data[:size])
        data = data[size:]
    return chunks


def search(seed: int) -> Counts:
    async def on_a_loop() -> Counts:
        return await Round(seed).search()

    return asyncio.run(on_a_loop())


@pytest.mark.parametrize("seed", range(8))
def test_what_the_native_way_accepts_is_what_aiohttp_reads(seed: int) -> None:
    tried, accepted, compared = search(seed)
    assert compared == accepted
    assert tried / 20 < accepted < tried / 2


if __name__ == "__main__":
    main(search, "requests")
