"""Runs a search in rounds, each with a seed of its own, on some processes."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple


class Counts(NamedTuple):
    """What was given to the native reader, what it accepted, and what of that was compared with
    the reader it stands for."""

    tried: int = 0
    accepted: int = 0
    compared: int = 0

    def plus(self, other: Counts) -> Counts:
        return Counts(*(mine + more for mine, more in zip(self, other, strict=True)))


Search = Callable[[int], Counts]  # given a seed; raises AssertionError with the case

FORKS = multiprocessing.get_context("fork")  # a search need not be importable
# What says which build is searched; a replay needs the same.
ENVIRONMENT = ("PYTHONPATH", "LD_PRELOAD", "PYTHONMALLOC", "ASAN_OPTIONS")


@dataclass
class Plan:
    """seed: of the first round.  until: of the monotonic clock.  wanted: how many to try."""

    seed: int
    until: float
    wanted: float
    rounds: float


@dataclass
class Progress:
    """What the processes share. Every round is taken by one of them, in the order of seeds.

    running: the seed that each has taken last.
    """

    jobs: int
    seed: int
    lock: Any = field(default_factory=FORKS.Lock)

    def __post_init__(self) -> None:
        self.counts = FORKS.RawArray("q", [0, 0, 0])
        self.next = FORKS.RawValue("q", self.seed)
        self.is_over = FORKS.RawValue("b", 0)
        self.running = FORKS.RawArray("q", [-1] * self.jobs)

    def take(self, job: int, plan: Plan) -> int | None:
        """The seed of a round, or None: no more are wanted."""
        with self.lock:
            is_enough = (
                self.is_over.value
                or self.counts[0] >= plan.wanted
                or self.next.value - plan.seed >= plan.rounds
                or time.monotonic() >= plan.until
            )
            if is_enough:
                return None
            seed: int = self.next.value
            self.next.value += 1
            self.running[job] = seed
            return seed

    def add(self, counts: Counts) -> None:
        with self.lock:
            for place, count in enumerate(counts):
                self.counts[place] += count


def work(search: Search, progress: Progress, job: int, plan: Plan) -> None:
    logging.disable()  # what the readers say of nonsense
    try:
        while (seed := progress.take(job, plan)) is not None:
            progress.add(search(seed))
    except BaseException:
        progress.is_over.value = 1
        raise


def run(search: Search, plan: Plan, jobs: int) -> tuple[Progress, list[int]]:
    """The seeds of the rounds that failed, or that took their process with them."""
    progress = Progress(jobs, plan.seed)
    workers: list[BaseProcess] = [
        FORKS.Process(target=work, args=(search, progress, job, plan), daemon=True)
        for job in range(jobs)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    failed = [progress.running[job] for job, worker in enumerate(workers) if worker.exitcode != 0]
    return progress, failed


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--count", type=float, default=float("inf"), help="how many to try")
    parser.add_argument("--rounds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=None, help="of the first round")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args(words)
    if min(given.seconds, given.count, given.rounds) == float("inf"):
        parser.error("say when to end: --seconds, --count or --rounds")
    return given


def replay(seed: int) -> str:
    """The command that runs one round again."""
    given = [f"{name}={os.environ[name]}" for name in ENVIRONMENT if name in os.environ]
    words = ["env", *given, sys.executable, sys.argv[0], "--seed", str(seed), "--rounds", "1"]
    return shlex.join(words)


def main(search: Search, what: str) -> None:
    """The program: exits with 1 if a round failed."""
    given = arguments(sys.argv[1:])
    seed = int.from_bytes(os.urandom(4), "big") if given.seed is None else given.seed
    began = time.monotonic()
    plan = Plan(seed, began + given.seconds, given.count, given.rounds)
    progress, failed = run(search, plan, given.jobs)
    tried, accepted, compared = progress.counts
    seconds = time.monotonic() - began
    sys.stdout.write(
        f"{what}: {tried:,} tried, {accepted:,} accepted ({accepted / max(tried, 1):.0%}),"
        f" {compared:,} compared, {len(failed)} failed; {tried / seconds:,.0f}/s on {given.jobs}"
        f" processes; seeds {seed}..{progress.next.value - 1}, go on with"
        f" --seed {progress.next.value}\n"
    )
    for one in failed:
        sys.stdout.write(f"replay: {replay(one)}\n")
    sys.exit(1 if failed else 0)
