"""The installation log over restarts, and with files that are torn, full, or not to be written."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from headgate.admin.installation import entry_view
from headgate.model.installation import (
    MAX_TEXT,
    MEANINGS,
    Kind,
    LogEntry,
    NewEntry,
    as_document,
    entry_of,
    read_entry,
)
from headgate.model.suppression_states import AWAY, ON, QUARANTINE
from headgate.supervisor import installation_log
from headgate.supervisor.installation_log import (
    KEPT,
    InstallationLog,
    LogFile,
    Observer,
    Poll,
    span,
)

MAX = 65_536


def clock() -> Callable[[], int]:
    return itertools.count(1_790_000_000_000, 1000).__next__


def log_at(path: Path | None, max_bytes: int = MAX) -> InstallationLog:
    return InstallationLog(None if path is None else LogFile(path, max_bytes), clock())


def note(log: InstallationLog, *texts: str) -> None:
    for text in texts:
        log.note(NewEntry(Kind.RELOADED, "configuration", text))
    asyncio.run(log.close())


def noted(path: Path | None, *texts: str, max_bytes: int = MAX) -> InstallationLog:
    log = log_at(path, max_bytes)
    note(log, *texts)
    return log


def texts(log: InstallationLog, limit: int = KEPT) -> list[str]:
    return [entry.text for entry in log.recent(limit)]


def test_the_newest_come_first_and_no_more_than_asked_for() -> None:
    log = noted(None, "a", "b", "c")
    assert texts(log) == ["c", "b", "a"]
    assert texts(log, 2) == ["c", "b"]
    assert texts(log, 0) == []
    assert [entry.number for entry in log.recent()] == [3, 2, 1]


def test_memory_is_bounded() -> None:
    log = noted(None, *map(str, range(KEPT + 10)))
    assert len(log.recent()) == KEPT
    assert texts(log)[-1] == "10"


def test_entries_and_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "installation.log"
    noted(path, "a", "b")
    log = noted(path, "c")
    assert texts(log) == ["c", "b", "a"]
    assert [entry.number for entry in log.recent()] == [3, 2, 1]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [json.loads(line)["text"] for line in path.read_text().splitlines()] == ["a", "b", "c"]


def test_a_torn_line_costs_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "installation.log"
    noted(path, "a", "b")
    whole = path.read_bytes()
    for cut in range(1, 40):
        path.write_bytes(whole[:-cut])
        log = noted(path, "c")
        seen = ["c", "b", "a"] if cut == 1 else ["c", "a"]
        assert texts(log) == seen, cut
        assert texts(log_at(path)) == seen, cut


def test_lines_of_something_else_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "installation.log"
    path.write_bytes(b'\xff\xfe\n{"kind": "x"}\n[]\n\n{"number": 1}\n')
    assert texts(noted(path, "a")) == ["a"]
    assert texts(log_at(path)) == ["a"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("at_ms", "1e30"), ("at_ms", "-1"), ("at_ms", "253402300800000"), ("at_ms", "true"),
        ("at_ms", "null"), ("number", "-1"), ("number", "1e3"), ("number", "9223372036854775807"),
    ],
)  # fmt: skip
def test_a_line_with_a_number_that_is_none_is_left_out(
    tmp_path: Path, field: str, value: str
) -> None:
    path = tmp_path / "installation.log"
    noted(path, "a")
    line = {**json.loads(path.read_text()), field: "HERE", "text": "wrong"}
    with path.open("a") as file:
        file.write(json.dumps(line).replace('"HERE"', value) + "\n")
    log = noted(path, "b")
    assert texts(log) == ["b", "a"]
    assert [entry_view(entry)["id"] for entry in log.recent()] == [2, 1]


def test_files_are_rotated_and_stay_within_their_bound(tmp_path: Path) -> None:
    path = tmp_path / "installation.log"
    for number in range(60):
        noted(path, f"{number} {'x' * 900}", f"{number} {'y' * 900}", max_bytes=20_000)
        assert sum(one.stat().st_size for one in tmp_path.iterdir()) <= 20_000
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "installation.log", "installation.log.1",
    ]  # fmt: skip
    kept = [text.split()[0] for text in texts(log_at(path, 20_000))]
    assert kept[:2] == ["59", "59"]
    assert len(kept) >= 8


def test_a_folder_that_is_missing_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "none" / "installation.log"
    log = log_at(path)
    with caplog.at_level(logging.WARNING):
        for text in ("a", "b", "c"):
            note(log, text)
    assert texts(log) == ["c", "b", "a"]
    (said,) = caplog.messages
    assert "logs.installation_file" in said
    path.parent.mkdir()
    note(log, "d")
    assert texts(log_at(path)) == ["d", "c", "b", "a"]  # what could not be written is not lost


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A limit on the size of files fails in the middle of a line, as a full disk does."""
    path = tmp_path / "installation.log"
    noted(path, "a", "b")
    size = path.stat().st_size
    program = (
        "import asyncio, resource, signal, sys\n"
        "from pathlib import Path\n"
        "from headgate.model.installation import NewEntry, Kind\n"
        "from headgate.supervisor.installation_log import InstallationLog, LogFile\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size + 20}, {size + 20}))\n"
        "async def run():\n"
        f"    log = InstallationLog(LogFile(Path({str(path)!r}), {MAX}))\n"
        "    log.note(NewEntry(Kind.RELOADED, 'configuration', 'c'))\n"
        "    await log.close()\n"
        "    print([one.text for one in log.recent()])\n"
        "asyncio.run(run())\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True,
        timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == "['c', 'b', 'a']"
    assert "File too large" in done.stderr
    assert path.stat().st_size == size
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    assert texts(log_at(path)) == ["b", "a"]


async def written(path: Path, text: str) -> None:
    while texts(log_at(path))[:1] != [text]:  # noqa: ASYNC110 - the file says nothing by itself
        await asyncio.sleep(0.01)


async def test_what_is_noted_is_written_while_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "installation.log"
    log = log_at(path)
    running = asyncio.create_task(log.run())
    try:
        for text in ("a", "b"):
            log.note(NewEntry(Kind.RELOADED, "configuration", text))
            async with asyncio.timeout(10):
                await written(path, text)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await log.close()
    assert len(path.read_text().splitlines()) == 2  # nothing twice


async def test_a_failed_write_is_retried_without_another_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation_log, "_RETRY_S", 0.01, raising=False)
    path = tmp_path / "missing" / "installation.log"
    log = log_at(path)
    running = asyncio.create_task(log.run())
    try:
        log.note(NewEntry(Kind.RELOADED, "configuration", "a"))
        await asyncio.sleep(0.1)
        path.parent.mkdir()
        async with asyncio.timeout(10):
            await written(path, "a")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await log.close()
    assert len(path.read_text().splitlines()) == 1


def test_a_file_of_another_size_does_not_fill_memory(tmp_path: Path) -> None:
    path = tmp_path / "installation.log"
    noted(path, *map(str, range(500)), max_bytes=10_000_000)
    found = texts(log_at(path, 10_000))
    assert found[0] == "499"
    assert len(found) < 50


class SlowFile:
    """A file on a disk that hangs until `goes_on` is set. written: what was appended; began: when
    it was asked to."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.threads: list[threading.Thread] = []
        self.began = threading.Event()
        self.goes_on = threading.Event()

    def read(self) -> list[LogEntry]:
        return []

    def append(self, entries: Iterable[LogEntry]) -> bool:
        self.threads.append(threading.current_thread())
        self.began.set()
        self.goes_on.wait(60)
        self.written += [entry.text for entry in entries]
        return True


async def test_what_is_being_written_at_the_end_is_written_once_and_in_order() -> None:
    file = SlowFile()
    log = InstallationLog(file, clock())
    running = asyncio.create_task(log.run())
    log.note(NewEntry(Kind.STARTED, "gateway", "a"))
    assert await asyncio.to_thread(file.began.wait, 10)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    log.note(NewEntry(Kind.ENDED, "gateway", "b"))
    closing = asyncio.create_task(log.close())
    await asyncio.sleep(0)
    file.goes_on.set()
    await closing
    assert file.written == ["a", "b"]
    assert threading.main_thread() not in file.threads


def test_a_disk_that_hangs_does_not_hold_up_the_end(caplog: pytest.LogCaptureFixture) -> None:
    file = SlowFile()
    release = threading.Timer(30, file.goes_on.set)
    release.start()
    try:
        began = time.monotonic()
        note(InstallationLog(file, clock()), "a")
        assert time.monotonic() - began < 20
    finally:
        release.cancel()
        file.goes_on.set()
    assert "1 entries were not written in time" in caplog.text
    for thread in file.threads:
        thread.join(10)


# ---- entries from polls


Found = tuple[str, str, Mapping[str, Any]]
WELL = {"kafka main": (True, "connected"), "redis": (True, "connected")}
AWAY_NOW = {**WELL, "redis": (False, "no connection")}
START_MS = 1_790_000_000_000


def polls(*seen: Poll, step_ms: int = 1000) -> list[list[NewEntry]]:
    """What each poll makes known, a second after the other."""
    observer = Observer()
    return [observer.see(START_MS + number * step_ms, one) for number, one in enumerate(seen)]


def poll(
    dependencies: Mapping[str, tuple[bool, str]] = WELL,
    servers: Mapping[str, str] | None = None,
    suppression: Mapping[str, str] | None = None,
    spooled: int | None = 0,
    rebuilds: Mapping[tuple[str, ...], float] | None = None,
) -> Poll:
    return Poll(dependencies, servers or {}, suppression or {}, spooled, rebuilds or {})


def all_of(made: list[list[NewEntry]]) -> list[Found]:
    return [(one.kind, one.text, one.details) for some in made for one in some]


def test_an_outage_has_a_begin_and_an_end_and_how_long_it_was() -> None:
    made = polls(poll(), poll(), *[poll(AWAY_NOW)] * 5, poll(), poll())
    assert all_of(made) == [
        (Kind.OUTAGE_BEGAN, "redis: no connection", {}),
        (Kind.OUTAGE_ENDED, "redis recovered after 5 s", {"seconds": 5.0}),
    ]
    began, ended = (one for some in made for one in some)
    assert (began.at_ms, ended.at_ms) == (START_MS + 2000, START_MS + 7000)
    assert began.subject == ended.subject == "redis"


def test_one_poll_alone_is_no_outage() -> None:
    assert all_of(polls(poll(), poll(), poll(AWAY_NOW), poll(), poll())) == []


def test_what_is_well_from_the_start_is_nothing_new_and_what_is_not_is() -> None:
    assert all_of(polls(poll(), poll())) == []
    assert [kind for kind, _, _ in all_of(polls(*[poll(AWAY_NOW)] * 3))] == [Kind.OUTAGE_BEGAN]


def test_an_outage_goes_on_while_no_worker_reports_it() -> None:
    gone = poll({"kafka main": (True, "connected")})
    made = polls(poll(), poll(), poll(AWAY_NOW), poll(AWAY_NOW), gone, gone, poll(), poll())
    assert [kind for kind, _, _ in all_of(made)] == [Kind.OUTAGE_BEGAN, Kind.OUTAGE_ENDED]


def test_a_clock_that_is_set_back_makes_no_negative_duration() -> None:
    made = polls(poll(), poll(), *[poll(AWAY_NOW)] * 2, poll(), poll(), step_ms=-1000)
    assert all_of(made)[-1][2] == {"seconds": 0.0}


def test_the_spool_stops_and_takes_events_again() -> None:
    full = {"spool": (False, "spool.max_bytes is reached")}
    fine = {"spool": (True, "empty")}
    made = all_of(polls(poll(fine), poll(fine), poll(full), poll(full), poll(fine), poll(fine)))
    assert made == [
        (Kind.SPOOL_STOPPED, "the spool refuses events: spool.max_bytes is reached", {}),
        (Kind.SPOOL_RESUMED, "the spool accepts events again after 2 s", {"seconds": 2.0}),
    ]


def test_spooling_begins_and_ends_and_is_not_judged_while_a_worker_is_missing() -> None:
    some, none, unknown = poll(spooled=7), poll(), poll(spooled=None)
    made = polls(none, none, some, some, unknown, unknown, some, none, none)
    assert all_of(made) == [
        (Kind.SPOOL_BEGAN, "events are spooled on disk", {"events": 7}),
        (Kind.SPOOL_ENDED, "empty again after 5 s", {"seconds": 5.0}),
    ]


def test_another_redis_process_is_a_failover() -> None:
    one, other = poll(servers={"redis": "a:1 run x"}), poll(servers={"redis": "b:2 run y"})
    nobody = poll()
    made = polls(one, one, nobody, other, other)
    assert all_of(made) == [
        (
            Kind.REDIS_CHANGED,
            "redis: b:2 run y answers instead of a:1 run x",
            {"before": "a:1 run x", "after": "b:2 run y"},
        )
    ]


def test_topics_that_change_together_are_one_entry() -> None:
    names = [f"t{number:02}" for number in range(30)]
    on, quarantine = (poll(suppression=dict.fromkeys(names, one)) for one in (ON, QUARANTINE))
    away = poll(suppression=dict.fromkeys(names, AWAY))
    made = all_of(polls(quarantine, quarantine, on, on, away, away, on, on))
    kinds = [Kind.QUARANTINE_BEGAN, Kind.SUPPRESSION_ON, Kind.SUPPRESSION_AWAY, Kind.SUPPRESSION_ON]
    assert [kind for kind, _, _ in made] == kinds
    assert made[0][2] == {"topics": names[:20], "count": 30}
    assert made[1][2] == {"topics": names[:20], "count": 30, "seconds": 2.0}
    assert "and others: all events are published without comparison (quarantine)" in made[0][1]


def test_a_topic_that_was_on_all_the_time_is_not_told_of() -> None:
    assert all_of(polls(*[poll(suppression={"orders": ON})] * 3)) == []


def test_producers_that_were_made_again_are_counted_by_reason() -> None:
    def at(count: int) -> Poll:
        return poll(rebuilds={("main", "fenced"): count})

    made = all_of(polls(poll(), at(1), at(1), at(3)))
    assert [details for _, _, details in made] == [
        {"reason": "fenced", "count": 1},
        {"reason": "fenced", "count": 2},
    ]


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (59_400, "59 s"), (60_000, "1 min 0 s"),
     (3_599_000, "59 min 59 s"), (8_040_000, "2 h 14 min")],
)  # fmt: skip
def test_spans_are_for_people(ms: int, shown: str) -> None:
    assert span(ms) == shown


def test_every_kind_has_a_level_and_a_sentence() -> None:
    assert set(MEANINGS) == set(Kind)
    assert all(meaning.about.endswith(".") for meaning in MEANINGS.values())


def test_an_entry_is_read_as_it_was_written_and_nothing_else_is() -> None:
    what = NewEntry(Kind.RELOAD_REFUSED, "configuration", "x" * 5000, {"options": ["a"]})
    entry = entry_of(7, START_MS, what)
    assert len(entry.text) == MAX_TEXT + len("...")
    document = as_document(entry)
    assert read_entry(document) == entry
    for name in document:
        assert read_entry({**document, name: None}) is None, name
    assert read_entry([document]) is None
    assert read_entry({**document, "kind": "of a later release"}) is None


def test_topics_that_refuse_events_without_redis_are_an_entry_of_their_own() -> None:
    on, away = (
        poll(suppression={"deals": one, "orders": one})._replace(refusing={"orders"})
        for one in (ON, AWAY)
    )
    assert [text for _, text, _ in all_of(polls(on, on, away, away))] == [
        "deals: all events are published without comparison: Redis does not answer",
        'orders: events are refused (redis_loss = "refuse"): Redis does not answer',
    ]
