"""The active certificates, as copies in the parent's private folder.

Workers read the copies. So a certificate that is being replaced, or is bad, cannot block the
restart of a worker. A symbolic link swaps all files of one state at once.
"""

import base64
import binascii
import dataclasses
import re
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from headgate.config.problems import ConfigError, Problem, shown
from headgate.config.settings import HttpSettings
from headgate.errors_in_words import (
    FileTrouble,
    PemFile,
    authorities_trouble,
    key_pair_trouble,
)
from headgate.http.listener import server_context

# ---- Expiry of the certificates in a PEM file (as much of DER as it takes, RFC 5280, 4.1)

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


_OPTIONS = ("tls_cert_file", "tls_key_file", "tls_client_ca_file")
_IN_FORCE = "tls"


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


class KeptTls:
    """The TLS files of the configuration, and the copies that are in use.

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
        folder = self._folder / _IN_FORCE
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
        folder = self._folder / f"{_IN_FORCE}-{self._number}"
        folder.mkdir(mode=0o700)
        for name, text in texts.items():
            copy = folder / name
            copy.touch(mode=0o600)
            copy.write_bytes(text)
        context = self._context(folder)
        link = self._folder / f"{_IN_FORCE}.new"
        link.unlink(missing_ok=True)
        link.symlink_to(folder.name)
        link.replace(self._folder / _IN_FORCE)
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
        return self._context(self._folder / _IN_FORCE) if self._paths else None

    def _context(self, place: Path) -> ssl.SSLContext | None:
        certificate, key, authorities = (
            str(place / name) if name in self._paths else None for name in _OPTIONS
        )
        return server_context(
            dataclasses.replace(
                self._http,
                tls_cert_file=certificate,
                tls_key_file=key,
                tls_client_ca_file=authorities,
            )
        )
