"""Lines about the groups for a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from headgate.commands.terminal import PLAIN, Cell, Column, Ink, Style, shown, table
from headgate.model.text import counted

COLUMNS = (
    Column("state"),
    Column("group", gives_way=True),
    Column("cluster"),
    Column("lag", right=True),
    Column("heat"),
    Column("members", right=True),
    Column("remarks", gives_way=True),
)
_STATES = {
    "OK": Ink.GOOD,
    "WARN": Ink.WARNING,
    "STALL": Ink.BAD,
    "STOP": Ink.BAD,
    "REWIND": Ink.BAD,
}
_HEATS = {"cold": Ink.BAD, "cooling": Ink.WARNING}


def lines(page: dict[str, Any], at: str, style: Style = PLAIN) -> Iterator[str]:
    """Yield a table of `Monitor.groups()` and notes on the clusters; `at` is the time as text."""
    yield f"{at}  {counted(len(page['groups']), 'group')}"
    yield from table(COLUMNS, map(row, page["groups"]), style)
    yield from map(shown, notes(page))


def notes(page: Mapping[str, Any]) -> Iterator[str]:
    """Yield the newest regressions, and problems and blind spots of clusters."""
    for fall in page["regressions"][:5]:
        by = fall["committer"]["client"] if fall["committer"] else "committer unknown"
        end = f"recovered {fall['recovered_at']}" if fall["recovered_at"] else "not recovered"
        partition = f"{fall['group']} {fall['topic']}-{fall['partition']}"
        yield f"went back: {fall['at']} {partition} {fall['from']} -> {fall['to']} ({by}; {end})"
    for cluster in page["clusters"]:
        yield from _of_cluster(cluster)


def row(group: dict[str, Any]) -> list[Cell]:
    """Return one group, in the order of `COLUMNS`."""
    return [
        Cell(group["state"], _STATES.get(group["state"], Ink.PLAIN)),
        Cell(group["group"]),
        Cell(group["cluster"]),
        Cell(f"{group['lag']:,}"),
        Cell(group["heat"], _HEATS.get(group["heat"], Ink.PLAIN)),
        Cell(str(group["members"])),
        Cell(", ".join(_remarks(group))),
    ]


def _remarks(group: dict[str, Any]) -> Iterator[str]:
    if group["stuck_commit"]:
        yield "stuck commit"
    if group["regressions"]:
        yield f"{counted(group['regressions'], 'commit')} went back"
    if group.get("unread_topics"):
        yield f"no member reads {', '.join(group['unread_topics'])}"
    if group["idle_members"]:
        yield f"{group['idle_members']} idle"
    if not group["probation"]["admitted"]:
        yield "on probation"
    if group["loss_in_s"] is not None:
        yield f"loses records in {group['loss_in_s']:.0f} s"


def _of_cluster(cluster: dict[str, Any]) -> Iterator[str]:
    name = cluster["cluster"]
    if not cluster["ok"]:
        yield f"cluster {name}: {cluster['detail']}"
    elif not cluster["every_commit_is_seen"]:
        yield f"cluster {name}: {cluster['why_not']}"
    for rogue in cluster["rogue_readers"]:
        rate = rogue["unexplained_per_s"]
        topic = rogue["topic"]
        yield f"cluster {name}: {topic} is read by an unknown consumer, {rate} bytes a second"
    bad = {state: count for state, count in cluster["partitions"].items() if count}
    if bad:
        yield f"cluster {name}: " + ", ".join(f"{n} {state}" for state, n in bad.items())
