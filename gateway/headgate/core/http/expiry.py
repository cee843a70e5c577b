"""When the certificates of a PEM file end: as much of DER as that takes (RFC 5280, section 4.1)."""

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import NamedTuple

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION = 0xA0
_UTC_TIME = 0x17
_LONG = 0x80


class _Element(NamedTuple):
    """One element of DER. Its content is from start to end, and the next one begins there."""

    tag: int
    start: int
    end: int


def expires_at(pem: bytes) -> float | None:
    """When the first of the certificates ends, in seconds since 1970: with one that has ended a
    chain is worth nothing. None: there is no certificate that can be read."""
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
    found = _element(der, not_before.end)
    text = der[found.start : found.end].decode("ascii")
    if found.tag == _UTC_TIME:
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
