"""Fails if the gateway became slower: this commit beside an earlier one, on this machine.

python loadtest/gate.py --base v1.0.0            7 rounds, more if this machine is noisy: 15 minutes
python loadtest/gate.py --base main~20 --quick   3 rounds of 2 s: a first look
python loadtest/gate.py --base HEAD --same       a commit beside itself: the noise of this machine

Three gateways run with Redis servers of their own on one broker: two of the base, one of this
commit (as `make setup` installed it). In each round they start anew and take turns. The two of the
base differ by noise alone. A row fails if this commit costs more than the base by the tolerance and
that noise. A row whose noise is larger than the tolerance decides nothing: there are more rounds.

Exit code: 0 no row is worse, 1 a row is worse, 2 nothing is decided, or the command was wrong.
"""

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

from cases.pairs import COUNTERS_A_RUN
from cases.run_driver import DriverFailed, run
from plan import Plan
from report import Report, cpu, table
from targets import (
    GATEWAY_TOPIC,
    HERE,
    PLAIN_TOPIC,
    gateway_target,
    new_redis,
    start_gateway,
    started_broker,
    until_suppressing,
)
from wire import Encoding
from workload import Mode

ROOT = HERE.parent
BUILDS = ROOT / "build" / "gate"
BUILD_S = 1800.0
SIDES = ("base", "again", "head")
# A median of k values varies by sqrt(pi / 2) times the deviation of their mean (normal values).
MEDIAN = math.sqrt(math.pi / 2)
# Of the logarithms, with v for the variance of one run: head against the mean of two has 1.5 v, one
# of the base against the other has 2 v.
HEAD_SHARE = math.sqrt(1.5 / 2.0)

State = Literal["ok", "worse", "noisy"]
Figure = Literal["gateway", "redis", "p50"]


class Case(NamedTuple):
    """A load, and the figures of its report that are compared."""

    name: str
    encoding: Encoding
    connections: int
    mode: Mode
    topic: str
    figures: tuple[Figure, ...]


CASES = (
    Case("single-published", "single", 64, "published", GATEWAY_TOPIC, ("gateway", "redis")),
    Case("single-unchanged", "single", 64, "unchanged", GATEWAY_TOPIC, ("gateway", "redis")),
    Case("single-plain", "single", 64, "published", PLAIN_TOPIC, ("gateway",)),
    Case("single-1", "single", 1, "published", GATEWAY_TOPIC, ("p50",)),
    Case("ndjson-published", "ndjson", 16, "published", GATEWAY_TOPIC, ("gateway", "redis")),
    Case("ndjson-unchanged", "ndjson", 16, "unchanged", GATEWAY_TOPIC, ("gateway", "redis")),
    Case("ndjson-plain", "ndjson", 16, "published", PLAIN_TOPIC, ("gateway",)),
    Case("array-published", "array", 16, "published", GATEWAY_TOPIC, ("gateway",)),
)


class Row(NamedTuple):
    """One figure of one case; a value of each side for each round."""

    case: str
    figure: Figure
    base: list[float]
    again: list[float]
    head: list[float]


class Verdict(NamedTuple):
    """Shares of the base: 0.03 is 3 %. noise: the change that an equal commit stays below."""

    change: float
    noise: float
    state: State


def judge(row: Row, tolerance: float) -> Verdict:
    """Compare a row's head with the mean of its two bases, round by round.

    The noise comes from the two bases alone, which do not differ: an unusual head cannot widen it.
    """
    base, again, head = ([math.log(max(value, 1e-9)) for value in side] for side in row[2:])
    change = median(h - (b + a) / 2 for b, a, h in zip(base, again, head, strict=True))
    deviation = math.sqrt(
        sum((a - b) ** 2 for b, a in zip(base, again, strict=True)) / len(base)
    )  # around 0, which is known
    rounds = len(base)
    # Student's t for 2.5 % above it: 3.18 for 3 rounds, 2.36 for 7, 2.08 for 21.
    deviations = 2.0 + 3.5 / rounds
    noise = math.expm1(deviations * MEDIAN * HEAD_SHARE * deviation / math.sqrt(rounds))
    worse = math.expm1(change)
    if worse > tolerance + noise:
        return Verdict(worse, noise, "worse")
    return Verdict(worse, noise, "noisy" if noise > tolerance else "ok")


def rows_table(rows: Iterable[Row], tolerance: float) -> str:
    """A line for each row: medians, the change, the noise, and the verdict."""
    lines = []
    for row in rows:
        verdict = judge(row, tolerance)
        unit = "ms" if row.figure == "p50" else "us"
        both = (median(row.base + row.again), median(row.head))
        lines.append(
            [
                row.case,
                f"{row.figure}, {unit}",
                *(f"{value:.2f}" for value in both),
                f"{verdict.change:+.1%}",
                f"{verdict.noise:.1%}",
                str(len(row.head)),
                verdict.state,
            ]
        )
    return table(("case", "figure", "base", "head", "change", "noise", "rounds", "verdict"), lines)


def value_of(report: Report, figure: Figure) -> float:
    if figure == "p50":
        return float(report["latency_ms"]["p50"])
    return cpu(report, "target" if figure == "gateway" else figure)


# ---- what is compared


class Build(NamedTuple):
    """An installed gateway. site: its folder; None: where this environment has it."""

    name: str
    site: Path | None
    config: str

    @property
    def environment(self) -> dict[str, str]:
        return {} if self.site is None else {"PYTHONPATH": str(self.site)}

    def native(self) -> str:
        """What `headgate --version` says about native code."""
        answer = subprocess.run(
            [sys.executable, "-m", "headgate", "--version"],
            env={**os.environ, **self.environment},
            cwd="/",  # not the sources in this folder
            capture_output=True,
            text=True,
            timeout=60.0,
            check=True,
        )
        return answer.stdout.partition("native code:")[2].strip()


def git(*words: str) -> str:
    """Run git in this repository; raise `Unusable` with its message if it fails."""
    answer = subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=60.0
    )
    if answer.returncode:
        raise Unusable(answer.stderr.strip() or f"git {words[0]} failed")
    return answer.stdout


class Unusable(Exception):
    """The measurement cannot begin; the text has the reason and the fix."""


def commit_of(base: str) -> str:
    """Return the commit of `base`, or of the last tag."""
    if base:
        try:
            return git("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}").strip()
        except Unusable:
            raise Unusable(f"--base {base}: no such commit or tag in this repository") from None
    try:
        return git("rev-list", "-1", git("describe", "--tags", "--abbrev=0").strip()).strip()
    except Unusable:
        raise Unusable("no tag before this commit: name a commit with --base") from None


def build_of(commit: str, say: Callable[[str], None]) -> Build:
    """Build a commit into a folder of its own, or find it there."""
    folder = BUILDS / commit[:16]
    config = git("show", f"{commit}:loadtest/bench.toml")
    if not (folder / "site").is_dir():
        say(f"building {commit[:10]}: a minute or two")
        shutil.rmtree(folder, ignore_errors=True)
        tree = folder / "tree"
        tree.mkdir(parents=True)
        archive = folder / "tree.tar"
        git("archive", "--output", str(archive), commit)
        commands = (
            ["tar", "-xf", str(archive), "-C", str(tree)],
            pip("wheel", "--no-build-isolation", "--wheel-dir", str(folder), str(tree)),
        )
        log = folder / "build.log"
        with log.open("wb") as output:
            environment = {**os.environ, "PYTHONPATH": str(ROOT / ".venv" / "build")}
            for command in commands:
                _checked(command, environment, output.fileno(), log)
            wheel = next(folder.glob("*.whl"))
            part = folder / "part"
            _checked(
                pip("install", "--target", str(part), str(wheel)), environment, output.fileno(), log
            )
        part.rename(folder / "site")
        shutil.rmtree(tree)
    return Build(commit[:10], folder / "site", config)


def pip(*words: str) -> list[str]:
    command, *rest = words
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", command, "--no-deps", *rest]


def _checked(command: list[str], environment: dict[str, str], output: int, log: Path) -> None:
    done = subprocess.run(
        command, env=environment, stdout=output, stderr=output, timeout=BUILD_S, check=False
    )
    if done.returncode:
        raise Unusable(f"the base cannot be built: {command[0]} failed, see {log}")


# ---- the measurement


class Gate:
    """The rounds of all cases."""

    def __init__(
        self, builds: dict[str, Build], cases: Sequence[Case], seconds: float, tolerance: float
    ) -> None:
        self.rows = {
            (case.name, figure): Row(case.name, figure, [], [], [])
            for case in cases
            for figure in case.figures
        }
        self._builds = builds
        self._seconds = seconds
        self._tolerance = tolerance
        self._round = self._runs = 0

    def rows_that_are(self, state: State) -> list[Row]:
        """The rows with this verdict; more rounds may decide those that are `noisy`."""
        return [row for row in self.rows.values() if judge(row, self._tolerance).state == state]

    def measure_round(
        self, cases: Iterable[Case], directory: Path, say: Callable[[str], None]
    ) -> None:
        """Start all three, run each case on each, end all; the order turns with each round."""
        number, self._round = self._round, self._round + 1
        sides = SIDES[number % 3 :] + SIDES[: number % 3]
        with ExitStack() as ending:
            broker = started_broker(directory, ending)
            targets = {}
            for side in sides:
                redis = new_redis(directory / side, ending)
                text = self._builds[side].config.replace("BOOTSTRAP", broker.bootstrap)
                served = start_gateway(
                    directory / side,
                    text.replace("REDIS", redis.url),
                    (),
                    ending,
                    self._builds[side].environment,
                )
                targets[side] = (served, redis.pid)
            for served, _ in targets.values():
                until_suppressing(served.port, GATEWAY_TOPIC)
            for case in cases:
                for side in sides:
                    served, redis_pid = targets[side]
                    target = gateway_target(served, case.topic)
                    self._runs += 1
                    report = run(
                        Plan(
                            url=target.single_url,
                            mode=case.mode,
                            encoding=case.encoding,
                            connections=case.connections,
                            seconds=self._seconds,
                            first=self._runs * COUNTERS_A_RUN,
                            watch=(f"target={target.pid}", f"redis={redis_pid}"),
                            bootstrap=broker.bootstrap,
                            topic=case.topic,
                        )
                    )
                    for figure in case.figures:
                        row = self.rows[case.name, figure]
                        getattr(row, side).append(value_of(report, figure))
                rows = [self.rows[case.name, figure] for figure in case.figures]
                latest = ", ".join(
                    f"{row.figure} {row.base[-1]:.2f} and {row.again[-1]:.2f} -> {row.head[-1]:.2f}"
                    for row in rows
                )
                say(f"round {self._round}, {case.name}: {latest}")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="", help="a commit or tag; default: the last tag")
    parser.add_argument("--same", action="store_true", help="the base beside itself")
    parser.add_argument("--quick", action="store_true", help="3 rounds of 2 s, no more")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each case (7)")
    parser.add_argument("--most-rounds", type=int, default=21, help="while rows are noisy (21)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measured window (3)")
    parser.add_argument("--tolerance", type=float, default=5.0, help="per cent (5)")
    parser.add_argument(
        "--case", action="append", choices=[case.name for case in CASES], help="repeatable"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "loadtest")
    return parser.parse_args(arguments)


def measured(options: argparse.Namespace, builds: dict[str, Build]) -> Gate:
    cases = [case for case in CASES if options.case is None or case.name in options.case]
    rounds, most, seconds = options.rounds, options.most_rounds, options.seconds
    if options.quick:
        rounds, most, seconds = 3, 3, 2.0
    gate = Gate(builds, cases, seconds, options.tolerance / 100)
    for number in range(max(rounds, most)):
        if number >= rounds:
            noisy = {row.case for row in gate.rows_that_are("noisy")}
            cases = [case for case in cases if case.name in noisy]
        if cases:
            with tempfile.TemporaryDirectory(prefix="headgate-gate-") as directory:
                gate.measure_round(cases, Path(directory), say)
    return gate


def say(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")


def compared(options: argparse.Namespace) -> tuple[Build, Build]:
    """The builds of base and head. Raises Unusable if they cannot be compared."""
    base = build_of(commit_of(options.base), say)
    head = base if options.same else Build("this", None, (HERE / "bench.toml").read_text())
    if base.native() != head.native():
        text = f"base {base.native()}, this commit {head.native()}"
        raise Unusable(f"native code differs ({text}): make setup compiles this commit")
    return base, head


def main() -> int:
    options = parse(sys.argv[1:])
    try:
        base, head = compared(options)
        gate = measured(options, {"base": base, "again": base, "head": head})
    except (Unusable, DriverFailed, TimeoutError) as error:
        sys.stderr.write(f"gate: {error}\n")
        return 2
    tolerance = options.tolerance / 100
    text = rows_table(gate.rows.values(), tolerance)
    worse, undecided = gate.rows_that_are("worse"), gate.rows_that_are("noisy")
    if worse:
        verdict = f"worse by more than {options.tolerance:g} % and the noise: " + names(worse)
    elif undecided:
        verdict = f"not decided, the machine is too noisy: {names(undecided)}"
    else:
        verdict = f"no row is worse by more than {options.tolerance:g} % and the noise"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gate.md").write_text(f"{text}\n{verdict}\n")
    sys.stdout.write(f"base {base.name}, head {head.name}\n\n{text}\n{verdict}\n")
    return 1 if worse else 2 if undecided else 0


def names(rows: Iterable[Row]) -> str:
    return ", ".join(f"{row.case} ({row.figure})" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
