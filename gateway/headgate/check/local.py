"""Local checks: the options, and the paths that they name.

They need neither Kafka nor Redis (`connect.py` checks those).
"""

import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headgate.check.rules import Finding, error, judge_options, ok, warn
from headgate.config.checks import authorities, key_pairs, pem_troubles
from headgate.config.settings import Settings
from headgate.errors_in_words import file_error, user
from headgate.model.text import counted

_FILE_URL = "file://"
_SECRET_FILE = re.compile(r", file (.+)$")  # in the origin of a secret
_OTHERS = stat.S_IROTH | stat.S_IWOTH
_SPOOL_FILES = ("lock", "spool.db", "spool.db-wal", "spool.db-shm")


def judge_settings(settings: Settings, origins: Mapping[str, str]) -> Iterator[Finding]:
    """Yield all findings that a valid configuration allows on this machine.

    Args:
        settings: The configuration.
        origins: The origin of each value, as `load_with_origins` returns it.
    """
    yield from judge_options(settings, origins)
    yield from judge_paths(settings)
    yield from judge_modes(settings, origins)


def judge_paths(settings: Settings) -> Iterator[Finding]:
    """Yield errors for paths that make the gateway fail, and warnings for others.

    One finding names the user of the check: it has to be the user that the gateway runs as.
    """
    findings = list(_findings(settings))
    yield from findings
    tried = _tried(settings)
    if tried and not findings:
        text = f"{counted(tried, 'file or folder', 'files and folders')} can be used by {user()}"
        if os.geteuid() == 0:
            text += "; root may use everything, so run the check as the gateway's user"
        yield ok("paths", text)


def _findings(settings: Settings) -> Iterator[Finding]:
    yield from _folder("spool.path", settings.spool.path)
    if settings.spool.path is not None:
        for name in _SPOOL_FILES:
            yield from _existing("spool.path", Path(settings.spool.path) / name, error)
    url = settings.blobs.url or ""
    if url.startswith(_FILE_URL):
        yield from _folder("blobs.url", url.removeprefix(_FILE_URL))
    yield from _file("logs.installation_file", settings.logs.installation_file)
    yield from _file("monitor.state_file", settings.monitor.state_file)
    for trouble in pem_troubles(settings):
        yield error(*trouble)
    parts = urlsplit(settings.auth.jwt_jwks_url or "")
    if parts.scheme == "file":
        yield from _readable("auth.jwt_jwks_url", unquote(parts.path))


def judge_modes(settings: Settings, origins: Mapping[str, str]) -> Iterator[Finding]:
    """Yield private keys and files of secrets that every user of the machine can read or change."""
    files = {pair.key_option: pair.key for pair in key_pairs(settings)}
    secrets = ((option, _SECRET_FILE.search(origin)) for option, origin in origins.items())
    files |= {f"{option}_file": match[1] for option, match in secrets if match}
    for option, path in files.items():
        if path is None:
            continue
        try:
            mode = Path(path).stat().st_mode
        except OSError:
            continue  # `judge_paths` reports it
        if others := mode & _OTHERS:
            may = "change" if others & stat.S_IWOTH else "read"
            text = f"every user of this machine can {may} {path} (mode {stat.S_IMODE(mode):04o})"
            yield warn(option, text, f"Close it: chmod o= {path}")


def _tried(settings: Settings) -> int:
    """Return the number of options that name a path."""
    url, keys = settings.blobs.url or "", settings.auth.jwt_jwks_url or ""
    written = (settings.spool.path, settings.logs.installation_file, settings.monitor.state_file)
    read = [path for _, path in authorities(settings)]
    pairs = [path for each in key_pairs(settings) for path in (each.certificate, each.key)]
    named = sum(path is not None for path in (*written, *read, *pairs))
    return named + url.startswith(_FILE_URL) + keys.startswith(_FILE_URL)


def _existing(
    option: str, file: Path, finding: Callable[[str, str, str], Finding]
) -> Iterator[Finding]:
    """Yield a finding if a file exists that the user may not write: one of another user.

    It is not opened: SQLite loses its locks if its own process closes a second handle.
    """
    if file.is_file() and not os.access(file, os.W_OK, effective_ids=True):
        fix = f"Give it to the gateway's user: chown USER {file}"
        yield finding(option, f"{file} cannot be written by the user {user()}", fix)


def _folder(option: str, path: str | None) -> Iterator[Finding]:
    """Check a folder that is made if need be."""
    if path is None:
        return
    existing = Path(path).absolute()
    while not os.path.lexists(existing):
        existing = existing.parent
    if why := _why_not(existing):
        made = "used" if Path(path).exists() else "made"
        fix = "Name a folder that the gateway's user may write, or make it: install -d -o USER DIR"
        yield error(option, f"{path} cannot be {made}: {why}", fix)


def _file(option: str, path: str | None) -> Iterator[Finding]:
    """Check a file that is written, in a folder that has to exist."""
    if path is None:
        return
    file = Path(path).absolute()
    why = _why_not(file.parent)
    if not why and file.exists() and not file.is_file():
        why = "it is not a file"
    if why:
        fix = "Make its folder, and let the gateway's user write there."
        yield warn(option, f"{path} cannot be written: {why}", fix)
    else:
        yield from _existing(option, file, warn)


def _why_not(folder: Path) -> str:
    """Return the reason why no file can be made in a folder; empty if it can.

    Only an attempt shows it: permissions alone are misleading for a system folder or a read-only
    file system.
    """
    if not folder.is_dir():
        return f"{folder} is not a folder"
    try:
        Path(tempfile.mkdtemp(prefix=".headgate-check-", dir=folder)).rmdir()
    except OSError as wrong:
        return f"{user()} may not write in {folder} ({file_error(wrong)})"
    return ""


def _readable(option: str, path: str) -> Iterator[Finding]:
    try:
        with Path(path).open("rb"):
            pass
    except OSError as wrong:
        fix = "Correct the path, or let the gateway's user read the file."
        yield error(option, f"{path} cannot be read: {file_error(wrong)}", fix)
