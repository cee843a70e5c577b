"""Resolution of claim checks: records with their value in a blob store.

Such a record (`oversize = ["claim-check"]`) has an empty value, `ce_dataref` with the blob's URL,
and `hg-value-bytes` and `hg-value-sha256` with the size and digest of the blob.

    claims = ClaimChecks("s3://bucket/prefix")
    value = await claims.value(event)       # of any event: others give their own value

Only URLs below the given roots are read: a header must not make a consumer read any file or
contact any host. `ce_dataref` without `hg-value-sha256` is a producer's own CloudEvents attribute
and is ignored.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any, BinaryIO, Protocol

import fsspec

from headgate.model.oversize import is_below
from headgate.model.record import DATAREF, VALUE_BYTES, VALUE_SHA256

__all__ = ["ClaimChecks", "ClaimError"]

_OF_A_CLAIM = frozenset((DATAREF, VALUE_BYTES, VALUE_SHA256))
_STEP_BYTES = 1024 * 1024


class ClaimError(Exception):
    """A blob that is missing, unreadable, or different from its record's headers."""


class WithHeaders(Protocol):
    """A record of any client, or an `assembler.Event`."""

    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Any: ...


class ClaimChecks:
    """A reader of claim checks.

    Args:
        roots: The `[blobs] url` of the gateways.
        max_bytes: Largest value in memory.
    """

    def __init__(self, *roots: str, max_bytes: int = 256 * 1024 * 1024) -> None:
        self._roots = roots
        self._max_bytes = max_bytes

    async def value(self, event: WithHeaders) -> bytes | None:
        """Return the event's value; fetch and check a claim check.

        Raises:
            ClaimError: The blob cannot be used.
        """
        claim = _claim(event.headers)
        if claim is None:
            return event.value
        url, size, digest = self._allowed(*claim)
        if size > self._max_bytes:
            raise ClaimError(f"{url} has {size} bytes, more than max_bytes; use `copy`")
        parts: list[bytes] = []
        await asyncio.to_thread(_read, url, size, digest, parts.append)
        return b"".join(parts)

    async def copy(self, event: WithHeaders, into: BinaryIO) -> int:
        """Write the value to a file, 1 MiB at a time; return its length.

        Raises:
            ClaimError: The content of the file is invalid then.
        """
        claim = _claim(event.headers)
        if claim is None:
            return into.write(event.value or b"")
        url, size, digest = self._allowed(*claim)
        await asyncio.to_thread(_read, url, size, digest, into.write)
        return size

    def _allowed(self, url: str, size: int, digest: str) -> tuple[str, int, str]:
        if not any(is_below(url, root) for root in self._roots):
            raise ClaimError(f"{url!r} lies below none of {', '.join(self._roots)}")
        return url, size, digest


def _claim(headers: Sequence[tuple[str, bytes | None]]) -> tuple[str, int, str] | None:
    own = [(name, value) for name, value in headers if name in _OF_A_CLAIM]
    claim = {name: (value or b"").decode("utf-8", "replace") for name, value in own}
    if DATAREF not in claim or VALUE_SHA256 not in claim:
        return None
    if len(claim) < len(own):  # the gateway's own header cannot be identified
        raise ClaimError(f"the record has two headers of one name among {', '.join(claim)}")
    try:
        return claim[DATAREF], int(claim.get(VALUE_BYTES, "")), claim[VALUE_SHA256]
    except ValueError:
        raise ClaimError(f"{VALUE_BYTES} is missing or no number") from None


def _read(url: str, size: int, digest: str, take: Any) -> None:
    sha256, seen = hashlib.sha256(), 0
    try:
        with fsspec.open(url, "rb") as blob:
            while step := blob.read(_STEP_BYTES):
                seen += len(step)
                if seen > size:
                    break
                sha256.update(step)
                take(step)
    except (OSError, ImportError, ValueError) as error:
        raise ClaimError(f"{url} cannot be read: {error!r}") from error
    if seen != size or sha256.hexdigest() != digest:
        raise ClaimError(f"{url} is not the value that the record stands for")
