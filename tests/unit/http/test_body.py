"""Request bodies: caps, deadlines, decompression, and a budget that comes out even."""

import asyncio
import gzip
import random
import sys
import time
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.http.body import decompress, read_body
from headgate.ingest.admission import Admission, ProducerBudget
from headgate.model.outcome import Reason, Refused

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


ENCODERS: dict[bytes, Callable[[bytes], bytes]] = {
    b"gzip": gzip.compress,
    b"x-gzip": gzip.compress,
    b"GZIP": gzip.compress,
    b"deflate": zlib.compress,
    b" deflate ": raw_deflate,
    b"zstd": zstd.compress,
}
SAMPLES = {"gzip": b"gzip", "deflate": b"deflate", "zstd": b"zstd"}
NOISE = random.Random(1).randbytes(9000)
encodings = pytest.mark.parametrize("encoding", ENCODERS)


def refusal(body: bytes, encoding: bytes, limit: int) -> Reason:
    with pytest.raises(Refused) as caught:
        decompress(body, encoding, limit)
    return caught.value.failure.reason


# ---- decompression


@encodings
@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=3000) | st.integers(0, 600_000).map(bytes))
def test_what_was_compressed_comes_back(encoding: bytes, data: bytes) -> None:
    assert decompress(ENCODERS[encoding](data), encoding, max(1, len(data))) == data


@encodings
@pytest.mark.parametrize("size", [1000, 262_144, 262_145, 600_000])
def test_the_cap_itself_is_allowed_and_one_more_is_not(encoding: bytes, size: int) -> None:
    packed = ENCODERS[encoding](bytes(size))
    assert len(decompress(packed, encoding, size)) == size
    assert refusal(packed, encoding, size - 1) is Reason.TOO_LARGE


@encodings
def test_incompressible_data_in_several_steps(encoding: bytes) -> None:
    data = random.Random(7).randbytes(1_000_000)
    assert decompress(ENCODERS[encoding](data), encoding, len(data)) == data


@encodings
def test_a_truncated_or_damaged_body_is_malformed(encoding: bytes) -> None:
    packed = ENCODERS[encoding](b"hello" * 1000)
    for cut in (1, 5, len(packed) // 2, len(packed) - 1):
        assert refusal(packed[:cut], encoding, 10_000) is Reason.MALFORMED
    assert refusal(b"\x08 not compressed at all", encoding, 10_000) is Reason.MALFORMED
    assert refusal(packed + b"garbage", encoding, 10_000) is Reason.MALFORMED


def test_never_much_more_than_the_cap_is_unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Watched:
        """A decompressor that remembers how much it was asked for."""

        def __init__(self, options: dict[int, int]) -> None:
            assert options  # a bound of the window
            self._inner = zlib.decompressobj(31)
            self.eof = False
            self.unused_data = b""

        def decompress(self, data: bytes, max_length: int) -> bytes:
            asked.append(max_length)
            return self._inner.decompress(data, max_length)

    monkeypatch.setattr(zstd, "ZstdDecompressor", Watched)
    assert refusal(gzip.compress(bytes(5000)), b"zstd", 999) is Reason.TOO_LARGE
    assert asked == [1000]


def test_a_bomb_is_stopped_at_the_cap() -> None:
    packer = zlib.compressobj(wbits=31, level=9)
    bomb = b"".join(packer.compress(bytes(1_000_000)) for _ in range(60)) + packer.flush()
    assert len(bomb) < 80_000
    assert refusal(bomb, b"gzip", 1_048_576) is Reason.TOO_LARGE
    assert refusal(zstd.compress(bytes(300_000_000)), b"zstd", 1_048_576) is Reason.TOO_LARGE


@pytest.mark.parametrize("encoding", [b"gzip", b"zstd"])
def test_several_members_are_one_body(encoding: bytes) -> None:
    packed = b"".join(ENCODERS[encoding](b"%d\n" % number) for number in range(300))
    expected = b"".join(b"%d\n" % number for number in range(300))
    assert decompress(packed, encoding, 10_000) == expected


@pytest.mark.parametrize("encoding", [b"gzip", b"zstd"])
def test_very_many_empty_members_end_soon(encoding: bytes) -> None:
    """Each member copies what is behind it: 16 MB of empty ones would take hours."""
    packed = ENCODERS[encoding](b"")
    body = packed * (4_000_000 // len(packed))
    started = time.process_time()
    assert refusal(body, encoding, 1_048_576) is Reason.MALFORMED
    assert time.process_time() - started < 30  # it took minutes before it was bounded


@pytest.mark.parametrize("encoding", [b"br", b"gzip, gzip", b"identity, gzip", b"snappy", b"\xff"])
def test_other_encodings_are_unsupported(encoding: bytes) -> None:
    assert refusal(b"x", encoding, 10) is Reason.UNSUPPORTED_ENCODING


def test_an_empty_body_stays_empty() -> None:
    for encoding in SAMPLES.values():
        assert decompress(b"", encoding, 10) == b""


# ---- reading from a connection


@asynccontextmanager
async def reading(
    budget: ProducerBudget, limit: int, timeout_s: float = 30.0
) -> AsyncIterator[tuple[RawTestServer, list[bytes | Reason]]]:
    found: list[bytes | Reason] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        encoding = request.headers.get("content-encoding", "").encode()
        try:
            body = await read_body(request, encoding, limit, timeout_s, budget)
            found.append(body)
        except Refused as refused:
            found.append(refused.failure.reason)
        return web.Response()

    server = RawTestServer(handle)
    await server.start_server(auto_decompress=False)
    try:
        yield server, found
    finally:
        await server.close()


async def exchange(server: RawTestServer, request: bytes, *later: bytes) -> bytes:
    """Send bytes as they are and read the head of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(request)
        for part in later:
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(part)
        return await asyncio.wait_for(reader.read(100), 20)
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def post(body: bytes, length: int | None = None, **headers: str) -> bytes:
    sent = {"host": "x", "content-length": str(len(body) if length is None else length), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in sent.items())
    return f"POST / HTTP/1.1\r\n{lines}\r\n".encode() + body


def chunked(*parts: bytes, **headers: str) -> bytes:
    sent = {"host": "x", "transfer-encoding": "chunked", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in sent.items())
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return f"POST / HTTP/1.1\r\n{lines}\r\n".encode() + chunks + b"0\r\n\r\n"


async def read_one(request: bytes, *later: bytes, limit: int = 2_000_000) -> bytes | Reason:
    """What read_body made of one request; the budget must come out even."""
    budget = Admission(10_000_000, 1)
    async with reading(budget.of("p"), limit) as (server, found):
        await exchange(server, request, *later)
        (body,) = found
    assert budget.bytes == (len(body) if isinstance(body, bytes) else 0)
    return body


async def test_bodies_are_read_whole() -> None:
    large = bytes(range(256)) * 2000
    assert await read_one(post(b"")) == b""
    assert await read_one(post(b"hello")) == b"hello"
    assert await read_one(post(large)) == large
    assert await read_one(post(large)[:1000], post(large)[1000:]) == large
    assert await read_one(chunked(b"hel", b"lo")) == b"hello"
    assert await read_one(chunked(large, large)) == large + large
    assert await read_one(post(b"hello", content_encoding="identity")) == b"hello"


@pytest.mark.parametrize("encoding", SAMPLES)
@pytest.mark.parametrize("data", [b"", b"x", b"x" * 50, bytes(900_000), NOISE])
async def test_compressed_bodies_hold_what_they_unfold_to(encoding: str, data: bytes) -> None:
    packed = ENCODERS[SAMPLES[encoding]](data)
    assert await read_one(post(packed, content_encoding=encoding)) == data
    assert await read_one(chunked(packed, content_encoding=encoding)) == data


@pytest.mark.parametrize("size", [5001, 60_000, 500_000])
async def test_the_cap_holds_however_the_body_comes(size: int) -> None:
    assert await read_one(post(bytes(5000)), limit=5000) == bytes(5000)
    assert await read_one(chunked(bytes(5000)), limit=5000) == bytes(5000)
    assert await read_one(post(bytes(size)), limit=5000) is Reason.TOO_LARGE
    assert await read_one(chunked(bytes(size)), limit=5000) is Reason.TOO_LARGE
    packed = gzip.compress(bytes(size))
    assert await read_one(post(packed, content_encoding="gzip"), limit=5000) is Reason.TOO_LARGE


async def test_a_broken_body_is_malformed() -> None:
    assert await read_one(post(b"xx", content_encoding="gzip")) is Reason.MALFORMED
    assert await read_one(post(b"xx", content_encoding="br")) is Reason.UNSUPPORTED_ENCODING


async def test_a_body_that_does_not_come_in_time_is_answered() -> None:
    budget = Admission(10_000_000, 1)
    async with reading(budget.of("p"), 1000, timeout_s=0.05) as (server, found):
        assert b" 200 " in await exchange(server, post(b"half", length=100))
        assert found == [Reason.REQUEST_TIMEOUT]
    assert budget.bytes == 0


async def test_a_full_budget_sheds_before_reading() -> None:
    budget = Admission(100, 1)
    budget.take_bytes("p", 90)
    async with reading(budget.of("p"), 1000) as (server, found):
        await exchange(server, post(bytes(20)))
        await exchange(server, chunked(bytes(900), bytes(20)))
    assert found == [Reason.OVERLOADED, Reason.OVERLOADED]
    assert budget.bytes == 90
