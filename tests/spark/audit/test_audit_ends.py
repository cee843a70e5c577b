"""An audit that is ended, or that loses Kafka: one sentence, and nothing is left of it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from headgate_spark.audit.scratch import PREFIX, remove_dead, scratch
from headgate_spark.job.command_line import JobError
from headgate_spark.job.ending import EndedError, signals_caught
from support.process.mirror_job import Job
from support.process.stack import RunningBroker
from support.scenarios.skew_topics import produce

TOPIC = "audit-ended"
RECORDS = 300_000  # one task at a time reads them for some five seconds
DEADLINE_S = 120.0
AWAY_S = 22.0  # more than one answer may take, less than the patience of 45 s


@pytest.fixture
def start_job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Start an audit into `tmp_path/out`; whatever is left of it is killed with the test."""
    jobs: list[Job] = []

    def start(servers: str, *more: str) -> Job:
        config = tmp_path / "headgate.toml"
        config.write_text(f'[clusters.main]\nbootstrap_servers = ["{servers}"]\n')
        folder = tmp_path / f"job-{len(jobs)}"
        folder.mkdir()
        arguments = ["--config", str(config), "--topics", TOPIC, "--out", str(tmp_path / "out")]
        jobs.append(Job(folder, "audit", *arguments, "--master", "local[1]", *more))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()


def until(job: Job, is_true: Callable[[], bool]) -> None:
    """Wait for something that happens while the job runs."""
    end = time.monotonic() + DEADLINE_S
    while not is_true():
        assert job.exit_code is None, job.text()
        assert time.monotonic() < end, job.text()
        time.sleep(0.05)


def folders(out: Path) -> set[Path]:
    return set(out.glob(f"{PREFIX}*"))


def all_end(job: Job) -> None:
    """Its Java ends by itself: one that was just starting notices a moment later."""
    end = time.monotonic() + DEADLINE_S
    while job.remains():
        assert time.monotonic() < end, job.remains()
        time.sleep(0.2)


def said(job: Job) -> str:
    """The sentence that it ended with; nothing else but progress was said, and nobody stays."""
    assert job.wait(DEADLINE_S) == 1, job.text()
    text = job.text()
    assert "Traceback" not in text
    assert "\tat " not in text, text
    all_end(job)
    lines = [one for one in text.splitlines() if one.startswith("headgate-spark: ")]
    told = [one for one in lines if not one.startswith("headgate-spark: [")]
    assert len(told) == 1, text
    return told[0]


def answer_again(broker: RunningBroker) -> None:
    """Until it is back in its own metadata: it was fenced while it stood still."""
    broker.resume()
    broker.wait()


@pytest.mark.kafka
def test_an_audit_that_is_ended_while_it_reads(
    start_broker: Callable[[], RunningBroker], start_job: Callable[..., Job], tmp_path: Path
) -> None:
    # one test for all: with two workers, several would start a broker and fill it twice
    broker, out = start_broker(), tmp_path / "out"
    broker.create_topic(TOPIC, 2)
    produce(broker, TOPIC, [b"key"] * RECORDS, [b"value"] * RECORDS, [None] * RECORDS)
    check_kill(broker, start_job, out)
    check_signal(broker, start_job, out)


@pytest.mark.kafka
@pytest.mark.full
def test_an_audit_whose_brokers_answer_no_more(
    start_broker: Callable[[], RunningBroker], start_job: Callable[..., Job], tmp_path: Path
) -> None:
    broker, out = start_broker(), tmp_path / "out"
    broker.create_topic(TOPIC, 2)
    produce(broker, TOPIC, [b"key"] * RECORDS, [b"value"] * RECORDS, [None] * RECORDS)
    check_silence(broker, start_job, out)


def check_kill(broker: RunningBroker, start_job: Callable[..., Job], out: Path) -> None:
    """Its Java ends by itself; its folder is left."""
    job = start_job(broker.bootstrap)
    until(job, lambda: bool(folders(out)))
    broker.pause()
    job.kill()
    all_end(job)
    assert len(folders(out)) == 1
    answer_again(broker)


def check_signal(broker: RunningBroker, start_job: Callable[..., Job], out: Path) -> None:
    """To all of its processes at once, as systemd and `timeout` do it."""
    dead = folders(out)
    job = start_job(broker.bootstrap)
    until(job, lambda: bool(folders(out)) and not folders(out) & dead)  # the next run cleans up
    broker.pause()
    os.killpg(job.child.pid, signal.SIGTERM)
    assert said(job) == "headgate-spark: SIGTERM ended it before the audit was done"
    assert list(out.iterdir()) == []
    answer_again(broker)


def check_silence(broker: RunningBroker, start_job: Callable[..., Job], out: Path) -> None:
    """Brokers that answer no more end it by themselves."""
    job = start_job(broker.bootstrap, "--patience", "10")
    until(job, lambda: bool(folders(out)))
    broker.pause()
    servers = f"cluster main (clusters.main.bootstrap_servers: {broker.bootstrap})"
    assert f"{servers} does not answer: " in said(job)
    assert list(out.iterdir()) == []


def is_spark(process: psutil.Process) -> bool:
    """Spark's Java, long before it can be asked anything."""
    try:
        return "org.apache.spark.deploy.SparkSubmit" in process.cmdline()
    except psutil.Error:  # a script on the way to it that has just ended
        return False


@pytest.fixture
def sigint_is_heard() -> Iterator[None]:
    """In a shell's background SIGINT is ignored, also by whatever is started from there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("sigint_is_heard")
def test_ctrl_c_while_spark_starts(start_job: Callable[..., Job], tmp_path: Path) -> None:
    job = start_job("127.0.0.1:1")
    until(job, lambda: any(map(is_spark, job.remains())))
    job.child.signal(signal.SIGINT)
    assert said(job) == "headgate-spark: SIGINT ended it before the audit was done"
    assert not (tmp_path / "out").exists()


@pytest.mark.kafka
@pytest.mark.full
def test_a_broker_that_is_away_for_twenty_seconds_is_waited_for(
    start_broker: Callable[[], RunningBroker], start_job: Callable[..., Job], tmp_path: Path
) -> None:
    broker, out = start_broker(), tmp_path / "out"
    broker.create_topic(TOPIC, 2)
    produce(broker, TOPIC, [b"key"] * RECORDS, [b"value"] * RECORDS, [None] * RECORDS)
    job = start_job(broker.bootstrap)
    until(job, lambda: " tasks\n" in job.text())
    broker.kill()
    killed_s = time.monotonic()
    # If the reading has fetched all by now, the driver waits for the broker, and no task does.
    until(job, lambda: time.monotonic() - killed_s > AWAY_S)
    broker.restart()
    assert job.wait() == 0, job.text()
    assert f'"records": {RECORDS},' in (out / "audit.json").read_text()


def test_the_folder_of_a_run_ends_with_it(tmp_path: Path) -> None:
    with scratch(tmp_path) as folder:
        (folder / "facts").mkdir()
        remove_dead(tmp_path)  # another run into the same result
        assert (folder / "facts").is_dir()
        with scratch(tmp_path) as other:
            assert folders(tmp_path) == {folder, other}
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_dead_run_is_removed_by_the_next(tmp_path: Path) -> None:
    begin = (
        "import sys, time; from pathlib import Path\n"
        "from headgate_spark.audit.scratch import scratch\n"
        "with scratch(Path(sys.argv[1])) as folder: print(folder, flush=True); time.sleep(600)"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", begin, str(tmp_path)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    try:
        assert run.stdout is not None
        left = Path(run.stdout.readline().strip())
        with scratch(tmp_path):
            assert left.is_dir()
    finally:
        run.kill()
        run.communicate()
    assert left.is_dir()
    (tmp_path / f"{PREFIX}old").mkdir()  # of a version that did not lock it
    with scratch(tmp_path) as folder:
        assert folders(tmp_path) == {folder}


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("")
    with pytest.raises(JobError, match=f"--out {file}: "), scratch(file):
        pass


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / ".reading-list" / "book"
    mine.mkdir(parents=True)
    with scratch(tmp_path):
        pass
    assert list(tmp_path.rglob("*")) == [mine.parent, mine]


def test_a_signal_while_the_folder_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_short(folder: Path, *, ignore_errors: bool) -> None:
        raise EndedError("SIGTERM")

    with pytest.raises(EndedError), scratch(tmp_path):
        monkeypatch.setattr(shutil, "rmtree", cut_short)
    monkeypatch.undo()
    remove_dead(tmp_path)  # as the command does when Spark has ended
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_keeps_the_names_of_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS: the folder is not empty until the lock is closed."""

    def all_but_the_folder(folder: Path, *, ignore_errors: bool) -> None:
        for one in folder.iterdir():
            one.unlink()

    monkeypatch.setattr(shutil, "rmtree", all_but_the_folder)
    with scratch(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_takes_an_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(lock: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with scratch(tmp_path) as folder:
        remove_dead(tmp_path)  # of whom nobody can say whether they live
        assert folders(tmp_path) == {folder}
    assert list(tmp_path.iterdir()) == []


def test_one_end_is_told_once() -> None:
    before, told = signal.getsignal(signal.SIGTERM), list[str]()
    # not to the Java of this process: it is that of the other tests
    with signals_caught(lambda: told.append("Java")) as signals:
        with pytest.raises(EndedError, match="SIGTERM"):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)  # the same end, told to the whole group
        signals.is_ending = True
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    assert told == ["Java"]


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    try:
        with signals_caught():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
