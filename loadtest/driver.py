"""The load generator, in a process of its own; prints one JSON document.

    python loadtest/driver.py --url http://127.0.0.1:8080/v1/topics/bench/events --connections 64 \
        --watch gateway=1234 --bootstrap 127.0.0.1:9092 --topic bench

Closed loop by default, open loop without coordinated omission with `--rate` (see load.py).
"""

import asyncio
import contextlib
import gc
import sys
import time
from typing import Any

import orjson
import uvloop

from load import Load
from offsets import end_offsets, growth, settled_end_offsets, verdict
from plan import Plan
from tally import (
    Mark,
    Sample,
    Tally,
    Watch,
    foreign_cores,
    microseconds_per_event,
    processes_changed,
    quantiles,
)
from wire import uncertain


async def prime(plan: Plan, tally: Tally) -> None:
    """Posts every key once, so that an unchanged run finds everything published."""
    load = Load(plan.primer(), plan.priming(), tally)
    await load.connect()
    load.start()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(load.pump())
        await load.finished.wait()
        await load.stop()


async def sampled(watch: Watch, load: Load, every_s: float, samples: list[Sample]) -> None:
    begin = time.monotonic()
    while True:
        samples.append(watch.sample(begin, load.tally))
        await asyncio.sleep(every_s)


class Run:
    """The measured run: what `report` needs afterwards."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tally = Tally()
        self.primed = Tally()
        self.samples: list[Sample] = []
        self.load: Load
        self.start: Mark
        self.stop: Mark

    async def measure(self) -> None:
        if self.plan.mode == "unchanged":
            await prime(self.plan, self.primed)
        self.load = Load(self.plan, self.plan.requests(), self.tally)
        await self.load.connect()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.load.pump())
            tasks.create_task(self.load.pace())
            await self._window(tasks)

    async def _window(self, tasks: asyncio.TaskGroup) -> None:
        watch = Watch(self.plan.watched)
        self.load.start()
        sampler = None
        if self.plan.sample_s:
            sampler = tasks.create_task(sampled(watch, self.load, self.plan.sample_s, self.samples))
        if self.plan.warm_up_s:  # else nothing may be answered before the window: not one turn
            await asyncio.sleep(self.plan.warm_up_s)
        self.tally.open_window(time.monotonic())
        self.start = watch.mark(self.tally)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.load.finished.wait(), self.plan.seconds)
        self.stop = watch.mark(self.tally)
        await self.load.stop()
        if sampler is not None:
            sampler.cancel()

    def report(self) -> dict[str, Any]:
        seconds = self.stop.at_s - self.start.at_s
        acked = self.stop.acknowledged - self.start.acknowledged
        return {
            "seconds": round(seconds, 3),
            "events": acked,
            "events_per_s": round(acked / seconds) if seconds else 0,
            "latency_ms": quantiles(self.tally.latencies_s),
            "late_ms": quantiles(self.tally.lateness_s),
            "statuses": dict(self.tally.statuses),
            "outcomes": dict(self.tally.outcomes),
            "timeouts": self.tally.statuses["timeout"],
            "unsent": self.load.unsent,
            "cpu_us_per_event": microseconds_per_event(self.start, self.stop),
            "foreign_cores": foreign_cores(self.start, self.stop),
            "processes_changed": processes_changed(self.start, self.stop),
            "samples": self.samples,
        }


def checked(plan: Plan) -> dict[str, Any]:
    """Runs the plan and, where a broker is named, compares its answers with the log."""
    before = end_offsets(plan.bootstrap, plan.topic_names) if plan.bootstrap else {}
    run = Run(plan)
    uvloop.run(run.measure())
    report = run.report()
    if plan.bootstrap:
        ends = run.tally.outcomes + run.primed.outcomes
        doubtful = uncertain(ends)
        read = settled_end_offsets if doubtful else end_offsets
        written = growth(before, read(plan.bootstrap, plan.topic_names))
        report["written"] = written
        report["published"] = ends["published"]
        report["log"] = verdict(written, ends["published"], doubtful)
    return report


def main() -> int:
    plan = Plan.parse(sys.argv[1:])
    gc.disable()  # a collection inside the window would look like a slow answer
    report = checked(plan)
    sys.stdout.buffer.write(orjson.dumps(report, option=orjson.OPT_NON_STR_KEYS) + b"\n")
    return 1 if report.get("log", "").startswith(("LOST", "EXTRA")) else 0


if __name__ == "__main__":
    sys.exit(main())
