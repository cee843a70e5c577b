"""Processor time of redis-server for suppression, of builds side by side in one run.

    python loadtest/micro/suppression_in_redis.py [--beside TREE[:SCRIPT]]... [--rounds 9]

TREE is another checkout, whose packing and script are measured beside those of this build, or with
the script of a file. Each build has a redis-server (REDIS_SERVER names another one) and a process
of its own; rounds alternate. A call settles what the call before reserved and reserves as much
again, so half of its keys are of either kind; where every event is unchanged, all are reserved.
Processor time of redis-server an event, in microseconds, the median of the rounds; then what this
build's is of each other's, and how long Redis takes for one call of this build.
Prints Markdown.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from headgate.devstack.servers import find_redis
from headgate.model.suppression import Scope
from headgate.suppression.rules import (
    SuppressionCall,
    SuppressionSpans,
    number_bytes,
    reserve,
    settle,
)
from headgate.suppression.store import RedisStore, arguments_of

HERE = Path(__file__).resolve()
EVENTS = 20_000  # of a round: some 0.1 s of Redis
SPANS = SuppressionSpans(240_000.0, 0.0, 3_600_000.0)
NUMBERS = number_bytes(4096)
FIRST = b"first" + bytes(11)  # the content that each key begins with


class Case(NamedTuple):
    """keys: of the topic.  size: keys a call.  is_new: whether each event's content is."""

    keys: int
    size: int
    is_new: bool


CASES = [
    Case(keys, size, is_new)
    for is_new in (True, False)
    for keys in (1_000, 100_000)
    for size in (2, 50, 200)
]


class Traffic:
    """Calls as a gateway would make them, one after the other."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._random = random.Random(1)
        self._scope = Scope("deals", os.urandom(16), 6, b"\x07" * 8)
        self._entries = [self._scope.entry(b"deal-%06d" % n) for n in range(case.keys)]
        self._open: list[tuple[bytes, bytes, bytes]] = []
        self._offset = 0

    def warm_up(self) -> Iterator[SuppressionCall]:
        """Calls that publish every key's first content."""
        for first in range(0, len(self._entries), 100):
            some = self._entries[first : first + 100]
            yield self._call([(entry, FIRST) for entry in some], is_new=True)
        yield self._call([], is_new=True)

    def calls(self) -> Iterator[SuppressionCall]:
        """A round."""
        _, size, is_new = self._case
        count = size // 2 if is_new else size
        for _ in range(EVENTS // count):
            entries = self._random.sample(self._entries, count)
            content = os.urandom(16) if is_new else FIRST
            yield self._call([(entry, content) for entry in entries], is_new)

    def _call(self, events: list[tuple[bytes, bytes]], is_new: bool) -> SuppressionCall:
        operations: dict[bytes, bytes] = {}
        for entry, token, content in self._open:
            operations[entry] = b"\0" + settle(token, content, self._offset, 6)
            self._offset += 1
        self._open = []
        for (entry, content), number in zip(events, NUMBERS, strict=False):
            token = os.urandom(10) + number
            operations[entry] = operations.get(entry, b"\0") + reserve(token, content, number)
            if is_new:
                self._open.append((entry, token, content))
        return SuppressionCall(
            SPANS, os.urandom(16), [self._scope], b"\0", [6], list(operations),
            list(operations.values()), len(events),
        )  # fmt: skip


class Server:
    """A redis-server of our own and the build's connection to it."""

    def __init__(self, directory: str, script: str | None) -> None:
        socket = f"{directory}/redis.sock"
        command = [os.environ.get("REDIS_SERVER", str(find_redis())), "--port", "0"]
        command += ["--unixsocket", socket, "--dir", directory, "--save", ""]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self._store = RedisStore(f"unix://{socket}", 5000, script)
        while not Path(socket).exists():
            time.sleep(0.01)

    async def start(self) -> None:
        await self._store.connect()

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()

    async def run(self, call: SuppressionCall) -> None:
        """One call; of the answer only whether it is one matters."""
        await self._store._redis.evaluate(arguments_of(call, self._store._identity))

    async def ask(self, *words: str) -> Any:
        connection = self._store._redis.connection
        assert connection is not None
        await connection.send_command(*words)
        return await connection.read_response()

    async def spent_us(self) -> float:
        """Processor time of the server so far."""
        lines = (await self.ask("INFO", "cpu")).decode().splitlines()
        times = dict(line.split(":") for line in lines if ":" in line)
        return 1e6 * (float(times["used_cpu_sys"]) + float(times["used_cpu_user"]))


async def measure(server: Server, case: Case, known: dict[Case, Traffic]) -> dict[str, float]:
    """One round. known: the traffic of the cases measured before."""
    traffic = known.get(case)
    if traffic is None:
        traffic = known[case] = Traffic(case)
        await server.ask("FLUSHALL")
        for call in traffic.warm_up():
            await server.run(call)
    calls = list(traffic.calls())
    events = sum(call.reservations for call in calls)
    before = await server.spent_us()
    for call in calls:
        await server.run(call)
    spent = await server.spent_us() - before
    return {"us": spent / events, "call_us": spent / len(calls)}


async def serve(script: str | None) -> None:
    """Measure what standard input asks for, one case a line."""
    with tempfile.TemporaryDirectory(prefix="headgate-") as directory:
        server = Server(directory, script)
        try:
            await server.start()
            known: dict[Case, Traffic] = {}
            for line in sys.stdin:
                sys.stdout.write(json.dumps(await measure(server, Case(*json.loads(line)), known)))
                sys.stdout.write("\n")
                sys.stdout.flush()
        finally:
            server.end()


class Build:
    """A process of a build that measures. where: TREE[:SCRIPT]; nothing means this one."""

    def __init__(self, where: str) -> None:
        tree, _, script = where.partition(":")
        self.name = where or "this build"
        command = [sys.executable, str(HERE), "--serve", *([script] if script else [])]
        there = {"PYTHONPATH": f"{Path(tree).resolve()}/gateway"} if tree else {}
        self._process = subprocess.Popen(
            command, env=os.environ | there, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def measure(self, case: Case) -> dict[str, float]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(case).encode() + b"\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())  # type: ignore[no-any-return]

    def end(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def compare(builds: list[Build], case: Case, rounds: int) -> str:
    """One row of the table."""
    samples: list[list[dict[str, float]]] = [[] for _ in builds]
    for number in range(rounds + 1):
        for build, found in zip(builds, samples, strict=True):
            sample = build.measure(case)
            if number:  # the first has the warm-up behind it
                found.append(sample)
    us = [statistics.median(one["us"] for one in found) for found in samples]
    call_us = statistics.median(one["call_us"] for one in samples[0])
    cells = [f"{one:.2f}" for one in us] + [f"{us[0] / one:.2f}" for one in us[1:]]
    kind = "published" if case.is_new else "unchanged"
    return " | ".join([f"| {kind} | {case.keys:,} | {case.size}", *cells, f"{call_us:.0f} |\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", action="append", default=[], metavar="TREE[:SCRIPT]")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sizes", type=int, nargs="*", help="keys a call, instead of all")
    parser.add_argument("--keys", type=int, nargs="*", help="of the topic, instead of all")
    parser.add_argument("--serve", nargs="?", const="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        asyncio.run(serve(Path(options.serve).read_text() if options.serve else None))
        return
    builds = [Build(where) for where in ("", *options.beside)]
    names = [build.name for build in builds]
    head = [
        "event",
        "keys",
        "keys a call",
        *names,
        *[f"of {name}" for name in names[1:]],
        "us a call",
    ]
    sys.stdout.write("| " + " | ".join(head) + " |\n" + "| --- " * len(head) + "|\n")
    for case in CASES:
        if case.size not in (options.sizes or [case.size]):
            continue
        if case.keys not in (options.keys or [case.keys]):
            continue
        sys.stdout.write(compare(builds, case, options.rounds))
        sys.stdout.flush()
    for build in builds:
        build.end()


if __name__ == "__main__":
    main()
