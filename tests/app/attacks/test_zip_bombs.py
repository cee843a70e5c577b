"""Zip bombs: what unfolds is cut off at the cap, in every encoding and on all ports.

tests/integration/http/test_bad_input_size.py has that a worker's memory stays bounded by real ones.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd

from headgate.config.settings import HttpSettings
from headgate.http.body import _ENCODINGS, decompress
from headgate.model.outcome import Reason, Refused
from support.attacks.targets import PORTS, answers, target

CAP = 1_048_576
BLANKS = b" " * (8 * CAP)


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "gzip": (b"gzip", gzip.compress),
    "x-gzip": (b"x-gzip", gzip.compress),
    "deflate": (b"deflate", zlib.compress),
    "raw deflate": (b"deflate", raw_deflate),
    "zstd": (b"zstd", zstd.compress),
}


def refused(body: bytes, encoding: bytes) -> Reason:
    with pytest.raises(Refused) as caught:
        decompress(body, encoding, CAP)
    return caught.value.failure.reason


def test_zip_bombs_of_every_encoding_are_here() -> None:
    assert {encoding for encoding, _ in PACKERS.values()} == set(_ENCODINGS)


@pytest.mark.parametrize("name", PACKERS)
def test_zip_bombs_are_cut_off(name: str) -> None:
    encoding, pack = PACKERS[name]
    assert refused(pack(BLANKS), encoding) is Reason.TOO_LARGE
    assert decompress(pack(BLANKS[:CAP]), encoding, CAP) == BLANKS[:CAP]
    assert refused(pack(BLANKS[: CAP + 1]), encoding) is Reason.TOO_LARGE


@pytest.mark.parametrize("name", ["gzip", "x-gzip", "zstd"])
def test_zip_bombs_of_many_parts(name: str) -> None:
    """Each part is small; all together are not, and empty ones cost as well."""
    encoding, pack = PACKERS[name]
    assert refused(pack(BLANKS[: CAP // 4]) * 5, encoding) is Reason.TOO_LARGE
    assert refused(pack(b"") * 100_000, encoding) is Reason.MALFORMED


@pytest.mark.parametrize("kind", PORTS)
@pytest.mark.parametrize("name", PACKERS)
async def test_zip_bombs_on_all_ports(tmp_path: Path, kind: str, name: str) -> None:
    encoding, pack = PACKERS[name]
    bomb = pack(BLANKS)
    fields = (f"Content-Length: {len(bomb)}", f"Content-Encoding: {encoding.decode()}")
    async with target(kind, tmp_path, HttpSettings(body_max_bytes=CAP)) as to:
        found = await answers(to.port, to.head(*fields, "Connection: close") + bomb)
        assert found.statuses == [413]
        assert to.done() == []


@pytest.mark.parametrize("kind", PORTS)
async def test_zip_bombs_in_zip_bombs(tmp_path: Path, kind: str) -> None:
    """Several encodings are none that is known, in one header or in two."""
    bomb = gzip.compress(gzip.compress(BLANKS))
    async with target(kind, tmp_path) as to:
        for fields in (["gzip, gzip"], ["gzip", "gzip"], ["deflate, gzip"], ["gzip,"], ["br"]):
            lines = [f"Content-Encoding: {one}" for one in fields]
            head = to.head(f"Content-Length: {len(bomb)}", *lines, "Connection: close")
            (status,) = (await answers(to.port, head + bomb)).statuses
            assert status in (400, 415), fields
        assert to.done() == []


def test_zip_bombs_that_only_ask_for_memory() -> None:
    """A frame of a few bytes that wants a window of 128 MiB gets none."""
    options = {zstd.CompressionParameter.window_log: 27}
    packer = zstd.ZstdCompressor(options=options)
    frame = packer.compress(b"x") + packer.flush()
    assert len(frame) < 20
    assert refused(frame, b"zstd") is Reason.MALFORMED
    whole = zstd.compress(BLANKS[:CAP])  # its window is as large as what it holds
    assert decompress(whole, b"zstd", CAP) == BLANKS[:CAP]
    allowed = {zstd.CompressionParameter.window_log: 23}  # what RFC 9659 allows
    packer = zstd.ZstdCompressor(options=allowed)
    assert decompress(packer.compress(b"x") + packer.flush(), b"zstd", 1000) == b"x"
