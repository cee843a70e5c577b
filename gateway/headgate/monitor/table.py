"""The groups as lines for a terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

_COLUMNS = ("STATE", "GROUP", "CLUSTER", "LAG", "HEAT", "MEMBERS", "REMARKS")


def lines(page: dict[str, Any], at: str) -> Iterator[str]:
    """A table of `Monitor.groups()`, and what cannot be seen of clusters. at: the time in words."""
    rows = [_COLUMNS, *(_row(row) for row in page["groups"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    yield f"{at}  {len(page['groups'])} groups"
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*padded, row[-1]]).rstrip()
    for one in page["regressions"][:5]:
        by = one["committer"]["client"] if one["committer"] else "committer unknown"
        end = f"recovered {one['recovered_at']}" if one["recovered_at"] else "not recovered"
        place = f"{one['group']} {one['topic']}-{one['partition']}"
        yield f"went back: {one['at']} {place} {one['from']} -> {one['to']} ({by}; {end})"
    for cluster in page["clusters"]:
        yield from _of_cluster(cluster)


def _row(row: dict[str, Any]) -> Sequence[str]:
    remarks = []
    if row["stuck_commit"]:
        remarks.append("stuck commit")
    if row["regressions"]:
        remarks.append(f"{row['regressions']} commits went back")
    if row["idle_members"]:
        remarks.append(f"{row['idle_members']} idle")
    if not row["probation"]["admitted"]:
        remarks.append("on probation")
    if row["loss_in_s"] is not None:
        remarks.append(f"loses records in {row['loss_in_s']:.0f} s")
    members = str(row["members"])
    cells = (row["state"], row["group"], row["cluster"], str(row["lag"]), row["heat"], members)
    return (*(str(cell) for cell in cells), ", ".join(remarks))


def _of_cluster(cluster: dict[str, Any]) -> Iterator[str]:
    name = cluster["cluster"]
    if not cluster["ok"]:
        yield f"cluster {name}: {cluster['detail']}"
    elif not cluster["every_commit_is_seen"]:
        yield f"cluster {name}: {cluster['why_not']}"
    for one in cluster["rogue_readers"]:
        rate = one["unexplained_per_s"]
        yield f"cluster {name}: {one['topic']} is read by somebody unknown, {rate} bytes a second"
    bad = {state: count for state, count in cluster["partitions"].items() if count}
    if bad:
        yield f"cluster {name}: " + ", ".join(f"{n} {state}" for state, n in bad.items())
