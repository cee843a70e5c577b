"""The active configuration and TLS files, as copies in the parent's private folder.

Workers read the copies. So a file that is being replaced, or is bad, cannot block the restart of a
worker, and all workers reload the same state.
"""

import asyncio
import base64
import binascii
import dataclasses
import fcntl
import logging
import os
import re
import shutil
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headgate.admin.installation import Configuration
from headgate.config import (
    Loaded,
    ReloadChanges,
    Settings,
    keep_schemas,
    load_with_origins,
    read_file,
    reload_changes,
)
from headgate.config.checks import refuse_bad_pem_files
from headgate.config.problems import ConfigError, Origins, Problem, shown
from headgate.config.settings import HttpSettings
from headgate.errors_in_words import FileTrouble, PemFile, authorities_trouble, key_pair_trouble
from headgate.http.auth import Authenticator
from headgate.http.listener import server_context
from headgate.wiring.reloading import Reload, prepared

if TYPE_CHECKING:
    from headgate.check.rules import Finding

log = logging.getLogger("headgate.supervisor")


class ActiveConfig:
    """The configuration that the parent has accepted.

    Raises ConfigError if the file cannot be used.

    Args:
        file: The TOML file.
        environ: Variables that override the file.
        flags: Names of command-line options by the variable that each one sets.
        folder: The private folder for the copy.

    Attributes:
        text: Text of the file.
        sha256: SHA-256 of the text, in hexadecimal.
        changes: What the last reload changed.
    """

    def __init__(
        self, file: Path, environ: Mapping[str, str], flags: Mapping[str, str], folder: Path
    ) -> None:
        self._file, self._environ, self._flags = file, environ, flags
        self._folder = folder
        self.copy = folder / "headgate.toml"
        self.changes = ReloadChanges([], [], [])
        text = read_file(file)
        self._accept(text, self._load(text))

    def reread(self, authenticator_of: Callable[[Settings], Authenticator]) -> Reload:
        """Read the file again and activate it; for a thread.

        Raises:
            ConfigError: The file cannot be used. The old configuration stays active.
            RestartNeededError: An option needs a restart. The old configuration stays active.
            OSError: No copy can be written. The old configuration stays active.
        """
        text = read_file(self._file)
        loaded = self._load(text)
        reload = prepared(self.shown.loaded.settings, loaded.settings, authenticator_of)
        changes = reload_changes(self.shown.loaded.settings, loaded.settings)
        self._accept(text, loaded)
        self.changes = changes
        return reload

    def findings(self) -> "list[Finding]":
        """Return the findings of `headgate check` about it; for a thread."""
        from headgate.check.local import judge_settings  # imported only on demand

        settings, origins = self.shown.loaded
        return list(judge_settings(settings, origins))

    def _load(self, text: str) -> Loaded:
        settings, origins = load_with_origins(self._file, self._environ, text=text)
        flags = self._flags
        named = Origins({option: flags.get(origin, origin) for option, origin in origins.items()})
        refuse_bad_pem_files(self._file, settings, named)
        return Loaded(settings, named)

    def _accept(self, text: str, loaded: Loaded) -> None:
        keep_schemas(loaded.settings.topics, self._folder)
        fresh = self._folder / "headgate.toml.new"
        fresh.touch(mode=0o600)
        fresh.write_text(text, encoding="utf-8", newline="")
        fresh.replace(self.copy)
        self.shown = Configuration(str(self._file), loaded, time.time())
        self.text = text
        self.sha256 = sha256(text.encode()).hexdigest()


# ---- the private folder

_PREFIX = "headgate-"
_LOCK = "parent.lock"
_LONGEST = 60  # bytes


@contextmanager
def private_folder() -> Iterator[Path]:
    """Make a folder (0700) for as long as the context lasts, and remove abandoned ones.

    It holds a copy of the configuration, which may contain passwords, so it must not stay. The
    parent holds a lock on a file in it until its end, however it ends. A process that gets the lock
    of another folder may remove that folder.
    """
    above = _short_folder()
    _remove_left(above)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=above) as made:
        folder = Path(made)
        new = folder / f"{_LOCK}.new"
        with new.open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            new.rename(folder / _LOCK)  # visible only once it is locked
            yield folder


def _short_folder() -> Path:
    """Return a directory with a path short enough for sockets.

    A unix socket's path has at most 107 bytes, and TMPDIR may be too long.
    """
    usual = tempfile.gettempdir()
    return Path(usual if len(os.fsencode(usual)) <= _LONGEST else "/tmp")


def _remove_left(above: Path) -> None:
    for lock in above.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):  # another user's, or removed meanwhile
            folder = lock.parent
            if folder.stat().st_uid == os.getuid() and _is_free(lock):
                shutil.rmtree(folder)
                log.info("removed the folder of a killed parent", extra={"path": str(folder)})


def _is_free(lock: Path) -> bool:
    with lock.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


# ---- detection of replaced files

# Signature of the link's target: Kubernetes replaces a mounted file by turning a link above it.
_Sign = tuple[int, int, int, int]


class FileWatch:
    """A poll of files for changes since they were added. Add files before you read them.

    For deployments without SIGHUP, such as a mounted ConfigMap.
    """

    def __init__(self) -> None:
        self._acted_on: dict[Path, _Sign | None] = {}
        self._seen: dict[Path, _Sign | None] = {}

    def add(self, *files: str | Path) -> None:
        """Watch more files."""
        for file in map(Path, files):
            self._acted_on[file] = self._seen[file] = _sign(file)

    async def run(self, period_s: float, ask: Callable[[], None]) -> None:
        """Poll the files until cancelled, and call `ask` once for each new state."""
        while True:
            await asyncio.sleep(period_s)
            if await asyncio.to_thread(self.look):
                ask()

    def look(self) -> bool:
        """Return whether this is the second look in a row that finds a new state.

        A single look may see half a file.
        """
        signs = {file: _sign(file) for file in self._seen}
        is_settled = signs == self._seen
        is_new = signs != self._acted_on
        self._seen = signs
        if is_settled and is_new:
            self._acted_on = signs
        return is_settled and is_new


def _sign(file: Path) -> _Sign | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size


# ---- the expiry of the certificates in a PEM file (as much of DER as it takes, RFC 5280, 4.1)

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION = 0xA0
_UTC_TIME = 0x17
_LONG = 0x80


class _Element(NamedTuple):
    """One element of DER. Its content is from start to end, and the next element begins at end."""

    tag: int
    start: int
    end: int


def expires_at(pem: bytes) -> float | None:
    """Return the earliest expiry of the certificates in a PEM file, in seconds since 1970.

    A chain is invalid once any certificate in it has expired. The result is None if there is no
    certificate, or one cannot be read.
    """
    ends = []
    for body in _PEM.findall(pem):
        try:
            ends.append(_not_after(base64.b64decode(body)))
        except (IndexError, ValueError, binascii.Error):
            return None
    return min(ends, default=None)


def _not_after(der: bytes) -> float:
    fields = _element(der, _element(der, 0).start)
    at = fields.start
    if der[at] == _VERSION:
        at = _element(der, at).end
    for _ in ("serial number", "signature", "issuer"):
        at = _element(der, at).end
    not_before = _element(der, _element(der, at).start)
    time_field = _element(der, not_before.end)
    text = der[time_field.start : time_field.end].decode("ascii")
    if time_field.tag == _UTC_TIME:
        text = ("19" if text >= "5" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _element(der: bytes, at: int) -> _Element:
    tag, size = der[at], der[at + 1]
    start = at + 2
    if size & _LONG:
        digits = size & ~_LONG
        size = int.from_bytes(der[start : start + digits])
        start += digits
    return _Element(tag, start, start + size)


# ---- the TLS files

_OPTIONS = ("tls_cert_file", "tls_key_file", "tls_client_ca_file")
_ACTIVE_TLS = "tls"


class TlsFilesError(OSError):
    """An unusable TLS file of the HTTP ports, with its option, its path, the reason and the fix."""

    def __init__(self, trouble: FileTrouble) -> None:
        super().__init__(str(trouble))
        self.trouble = trouble


def tls_error(http: HttpSettings, error: OSError) -> OSError:
    """Return an error that names the TLS file that cannot be used, or else the given one."""
    trouble = None
    if http.tls_client_ca_file is not None:
        trouble = authorities_trouble(PemFile("http.tls_client_ca_file", http.tls_client_ca_file))
    if trouble is None and http.tls_cert_file is not None and http.tls_key_file is not None:
        trouble = key_pair_trouble(
            PemFile("http.tls_cert_file", http.tls_cert_file),
            PemFile("http.tls_key_file", http.tls_key_file),
        )
    return error if trouble is None else TlsFilesError(trouble)


class TlsSnapshot:
    """The TLS files of the configuration, and the copies that are in use.

    A symbolic link swaps all copies of one state at once.

    Args:
        http: The HTTP settings.
        folder: The private folder.
    """

    def __init__(self, http: HttpSettings, folder: Path) -> None:
        self._http = http
        self._folder = folder
        self._paths = {name: getattr(http, name) for name in _OPTIONS if getattr(http, name)}
        self._kept: dict[str, bytes] = {}
        self._number = 0

    @property
    def files(self) -> list[str]:
        """Return the paths of the original files."""
        return list(self._paths.values())

    @property
    def environ(self) -> dict[str, str]:
        """Return the variables that make a worker read the copies."""
        folder = self._folder / _ACTIVE_TLS
        return {f"HEADGATE_HTTP__{name.upper()}": str(folder / name) for name in self._paths}

    @property
    def expires_at(self) -> float | None:
        """Return the expiry of the active chain, in seconds since 1970; None without TLS."""
        return expires_at(self._kept.get("tls_cert_file", b""))

    def accept(self) -> ssl.SSLContext | None:
        """Read the files, and keep them if they can be used.

        Returns:
            The new TLS context; None if the files are unchanged or there are none.

        Raises:
            OSError: The old files stay active. It is a TlsFilesError if one of the files is the
                cause.
        """
        try:
            return self._accept()
        except OSError as error:
            raise tls_error(self._http, error) from error

    def _accept(self) -> ssl.SSLContext | None:
        texts = {name: Path(path).read_bytes() for name, path in self._paths.items()}
        if texts == self._kept:
            return None
        self._number += 1
        folder = self._folder / f"{_ACTIVE_TLS}-{self._number}"
        active = self._folder / _ACTIVE_TLS
        unused = folder
        try:
            folder.mkdir(mode=0o700)
            for name, text in texts.items():
                copy = folder / name
                copy.touch(mode=0o600)
                copy.write_bytes(text)
            context = self._context(folder)
            link = self._folder / f"{_ACTIVE_TLS}.new"
            link.unlink(missing_ok=True)
            link.symlink_to(folder.name)
            before = active.resolve()
            link.replace(active)
            unused = before
        finally:
            if unused != active:  # there is none before the first files
                shutil.rmtree(unused, ignore_errors=True)
        self._kept = texts
        return context

    def accept_first(self, config: Path) -> None:
        """Accept the first files.

        Raises:
            ConfigError: The files cannot be used; it names the file.
        """
        try:
            self.accept()
        except OSError as error:
            expected = "a certificate chain and its key, as PEM files"
            if isinstance(error, TlsFilesError):
                option, value, fix = error.trouble
            else:
                option, fix = "http.tls_cert_file", ""
                value = f"{shown(self._http.tls_cert_file)} cannot be used: {error}"
            problem = Problem(option, value, expected, fix)
            raise ConfigError(str(config), [problem]) from None

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context of the active copies; None without TLS.

        Raises:
            OSError: The copies cannot be read.
        """
        return self._context(self._folder / _ACTIVE_TLS) if self._paths else None

    def _context(self, folder: Path) -> ssl.SSLContext | None:
        certificate, key, authorities = (
            str(folder / name) if name in self._paths else None for name in _OPTIONS
        )
        return server_context(
            dataclasses.replace(
                self._http,
                tls_cert_file=certificate,
                tls_key_file=key,
                tls_client_ca_file=authorities,
            )
        )
