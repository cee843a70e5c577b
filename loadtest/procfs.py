"""Processor time and memory of processes, as Linux counts them (proc(5))."""

import os
from pathlib import Path
from typing import NamedTuple

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")


def stat_fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from `state` on: the name before it may contain spaces."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def cpu_seconds(pid: int) -> float:
    """utime + stime of the process with all its threads; ended processes raise OSError."""
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def rss_bytes(pid: int) -> int:
    """VmRSS of /proc/PID/status."""
    return status_bytes(pid, "VmRSS")


def status_bytes(pid: int, name: str) -> int:
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0  # a zombie has no memory


class Memory(NamedTuple):
    """Bytes of one process. rss: resident, shared pages counted in full.  pss: a page that n
    processes share counts a n-th.  uss: what only this process has."""

    rss: int
    pss: int
    uss: int


def memory_of(pid: int) -> Memory:
    """From /proc/PID/smaps_rollup; an ended process raises OSError."""
    found: dict[str, int] = {}
    for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:]:
        name, size = line.split()[:2]
        found[name.rstrip(":")] = int(size) * 1024
    return Memory(found["Rss"], found["Pss"], found["Private_Clean"] + found["Private_Dirty"])


def forget_peak(pid: int) -> None:
    """Let `peak_bytes` begin again from what is resident now."""
    (PROC / str(pid) / "clear_refs").write_text("5")


def peak_bytes(pid: int) -> int:
    """The most that was resident since the start, or since `forget_peak` (VmHWM)."""
    return status_bytes(pid, "VmHWM")


def family(pids: list[int]) -> list[int]:
    """The processes and all their descendants: a gateway's parent and its workers."""
    parents = parent_of_each()
    found = list(pids)
    for pid in found:  # grows while it is read: children of children come too
        found += [child for child, parent in parents.items() if parent == pid]
    return sorted(set(found))


def parent_of_each() -> dict[int, int]:
    parents: dict[int, int] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(stat_fields(int(entry.name))[1])
            except OSError:
                continue  # ended while we looked
    return parents


def total_cpu_seconds(pids: list[int]) -> dict[int, float]:
    """By process; the ended ones are missing."""
    times: dict[int, float] = {}
    for pid in pids:
        try:
            times[pid] = cpu_seconds(pid)
        except OSError:
            continue
    return times


def rss_of(pids: list[int]) -> dict[int, int]:
    """By process, bytes; the ended ones are missing."""
    sizes: dict[int, int] = {}
    for pid in pids:
        try:
            sizes[pid] = rss_bytes(pid)
        except OSError:
            continue
    return sizes


def machine_busy_seconds() -> float:
    """Processor time that all of the machine has spent on anything but being idle (proc(5))."""
    ticks = [int(field) for field in (PROC / "stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks[:8]
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND
