"""Incident A: the runs, what each of them promises, and the table of all.

An hourly job switches each of a deal's options off and some 70 % of them back on, and saves the
whole deal each time: a thousand saves of 800 kB by one sequential client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from workload import BOMB_BACK_ON, BOMB_BYTES, BOMB_OPTIONS

MAX_RECORDS = 8  # of 1,013 saves at 20/s, quiet 2 s, at most 10 s


class Scale(NamedTuple):
    """How large the incident is. back_on: options that are on in the end."""

    options: int
    back_on: int
    document_bytes: int
    quiet_ms: int
    max_delay_ms: int
    fitting_ms: int

    @property
    def saves(self) -> int:
        return self.options + self.back_on


FULL = Scale(BOMB_OPTIONS, BOMB_BACK_ON, BOMB_BYTES, 2_000, 10_000, 120_000)
QUICK = Scale(120, 83, 160_000, 1_000, 3_000, 60_000)
SMALL = Scale(60, 41, 80_000, 700, 2_000, 60_000)


class Setting(NamedTuple):
    """One topic's options. options: lines of its section.  max_delay_ms: 0 = it does not coalesce.
    fits: the burst fits into one window.  is_burst: the client says which burst each save belongs
    to, and when it is over."""

    name: str
    topic: str
    options: str
    max_delay_ms: int = 0
    fits: bool = False
    is_burst: bool = False

    @property
    def coalesces(self) -> bool:
        return self.max_delay_ms > 0


class Case(NamedTuple):
    """One run. rate: saves a second, None = as fast as answers come.  changes: whether the deal
    is another one in the end."""

    setting: Setting
    rate: float | None
    changes: bool

    @property
    def key(self) -> str:
        return f"deal-{self.rate or 'fast'}-{'changed' if self.changes else 'same'}"

    @property
    def title(self) -> str:
        pace = f"{self.rate:g}/s" if self.rate else "as fast as answers come"
        return f"{self.setting.name}, {pace}, {'net change' if self.changes else 'no net change'}"


class Result(NamedTuple):
    """What became of a run. gaps: waits for an answer of more than half of the quiet time, each
    of which may end a window.  log: save numbers, in the order of the topic."""

    case: Case
    saves: int
    seconds: float
    gaps: int
    outcomes: dict[str, int]
    log: list[int]
    bytes: int
    is_last_in_log: bool

    @property
    def records(self) -> int:
        return len(self.log)


def settings_of(scale: Scale, prefix: str) -> list[Setting]:
    """Off, raw suppress, coalesce, coalesce + leading, a window as long as the burst, and a burst.

    prefix: of the topics' names.
    """

    def coalescing(name: str, max_delay_ms: int, more: str = "", **kind: bool) -> Setting:
        options = (
            f'suppress = "raw"\ncoalesce_quiet_ms = {scale.quiet_ms}\n'
            f"coalesce_max_delay_ms = {max_delay_ms}\ncoalesce_partitions = 3\n{more}"
        )
        title = f"coalesce, quiet {scale.quiet_ms / 1000:g} s, max {max_delay_ms / 1000:g} s"
        topic = f"{prefix}-{name or 'coalesce'}"
        return Setting(f"{title}, {name}" if name else title, topic, options, max_delay_ms, **kind)

    return [
        Setting("off", f"{prefix}-off", 'suppress = "off"'),
        Setting("raw suppress", f"{prefix}-raw", 'suppress = "raw"'),
        coalescing("", scale.max_delay_ms),
        coalescing("leading", scale.max_delay_ms, "coalesce_leading = true"),
        coalescing("", scale.fitting_ms, fits=True)._replace(topic=f"{prefix}-fitting"),
        coalescing("burst", scale.max_delay_ms, fits=True, is_burst=True),
    ]


def config_text(bootstrap: str, redis_url: str, settings: Sequence[Setting]) -> str:
    """One gateway for all settings, a topic each."""
    namespace = settings[0].topic
    head = f"""
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[redis]
url = "{redis_url}"
namespace = "{namespace}"
quarantine_ms = 1
"""
    sections = [
        f'[topics."{one.topic}"]\nkind = "state"\nkey = ["/id"]\n{one.options}' for one in settings
    ]
    return head + "\n".join(sections)


def broken(result: Result) -> list[str]:
    """What this run promised and did not keep."""
    setting, records, found = result.case.setting, result.records, []
    if not result.is_last_in_log:
        found.append("the last answered state is not the last in the log")
    if result.log != sorted(set(result.log)):
        found.append(f"records are out of order or repeated: {result.log}")
    if setting.coalesces and records > _limit(result):
        found.append(f"{records} records, at most {_limit(result)} were promised")
    kinds = {"held": result.saves} if setting.coalesces else {"published": records}
    if records < result.saves and not setting.coalesces:
        kinds["unchanged"] = result.saves - records
    if result.outcomes != kinds:
        found.append(f"the answers were {result.outcomes}, the topic says {kinds}")
    if setting.name == "off" and records != result.saves:
        found.append(f"{records} records of {result.saves} saves")
    return found


def _limit(result: Result) -> int:
    """A late answer may end a window; a slow machine has more windows in its burst."""
    setting = result.case.setting
    if setting.fits:
        return int(result.case.changes) + 2 * result.gaps
    windows = int(result.seconds * 1000 / setting.max_delay_ms) + 3
    return max(MAX_RECORDS, windows) + 2 * result.gaps


def table(results: Sequence[Result], rates: Sequence[float | None]) -> str:
    """One line for each setting and net change, a column for each pace (Markdown)."""
    paces = [f"{rate:g} saves/s" if rate else "as fast as answers come" for rate in rates]
    heads = [part for pace in paces for part in (f"{pace}: records", "bytes")]
    lines = [f"| topic's settings | changed in the end | {' | '.join(heads)} |"]
    lines.append("|---|---|" + "---:|" * len(heads))
    rows: dict[tuple[str, bool], dict[float | None, Result]] = {}
    for one in results:
        rows.setdefault((one.case.setting.name, one.case.changes), {})[one.case.rate] = one
    for (name, changes), cells in rows.items():
        texts = [
            f"{cells[rate].records:,} | {_megabytes(cells[rate].bytes)}"
            if rate in cells
            else "- | -"
            for rate in rates
        ]
        lines.append(f"| {name} | {'yes' if changes else 'no'} | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size else "0"
