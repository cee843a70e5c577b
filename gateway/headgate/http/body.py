"""Request bodies: reading with a size limit and a deadline, decompression, and streaming.

A body is read into memory (`read_body`), or streamed to the blob store if it is too large for
memory and its topic has claim-check (`Bodies.store`).
"""

import asyncio
import sys
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from aiohttp import ClientPayloadError, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_exceptions import HTTPException
from aiohttp.web_protocol import RequestPayloadError

from headgate.formats.decode import Headers
from headgate.formats.streamed import Announced, BodyInspector, announced, takes_streams
from headgate.ingest.admission import ProducerBudget
from headgate.model.outcome import Failure, Reason, Refused, TooMuch, brief, malformed
from headgate.model.publish import Streamed
from headgate.model.route import BEHIND, Route, too_large

if TYPE_CHECKING:  # the parent reads bodies without the path of events
    from headgate.blobs.blobs import Blobs
    from headgate.ingest.gate import Gate

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_IN_THREAD_BYTES = 4096  # 4 kB may expand to 4 MB; larger bodies are inflated in a thread
_STEP_BYTES = 262_144
_MAX_MEMBERS = 1000  # each member copies the rest of the body; bgzip makes one for 64 kB
_ENCODINGS = (b"gzip", b"x-gzip", b"deflate", b"zstd")
_GZIP = 31  # zlib's window bits for a gzip header
_ZLIB = 15
_RAW = -15
_WINDOW_LOG = 23  # 8 MiB
_WINDOW_LOG_MAX = zstd.DecompressionParameter.window_log_max
# Errors of reading a body that ends too early, or has invalid chunks.
BREAKS = (
    ClientPayloadError,
    RequestPayloadError,
    HttpProcessingError,
    HTTPException,
    ConnectionError,
)
BROKEN = malformed("the body is broken: it ends too early, or its chunks cannot be read")


class Inflater(Protocol):
    """The common interface of zlib's and zstd's decompressors."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


async def read_body(
    request: web.BaseRequest, encoding: bytes, limit: int, timeout_s: float, budget: ProducerBudget
) -> bytes:
    """Return the decompressed body; its bytes stay taken from the budget.

    Args:
        request: The request.
        encoding: Content-Encoding of the request.
        limit: Maximum size of the body, as sent and as decompressed, in bytes.
        timeout_s: Timeout for the body, in seconds.
        budget: Budget from which the body's bytes are taken.

    Raises:
        Refused: The body is too large, late or broken, or the budget is used up.
    """
    is_encoded = is_coded(encoding)
    if not is_encoded and request.content.is_eof():  # most bodies: they need no wait
        body = request.content.read_nowait(-1)
        if len(body) > limit:
            raise _too_much(len(body), limit, [body])
        take(budget, len(body))
        return body
    declared = request.content_length or 0
    if declared > limit:
        raise _too_much(declared, limit, [])
    if is_encoded:
        encoding = _known(encoding)
    take(budget, declared)
    taken = [declared]
    try:
        body = await _received(request, limit, timeout_s, budget, taken)
        if is_encoded:
            if len(body) < _IN_THREAD_BYTES:
                body = decompress(body, encoding, limit)
            else:
                body = await asyncio.to_thread(decompress, body, encoding, limit)
        if len(body) > taken[0]:
            take(budget, len(body) - taken[0])
            taken[0] = len(body)
    except BaseException:
        budget.give(taken[0], 0)
        raise
    budget.give(taken[0] - len(body), 0)
    return body


def take(budget: ProducerBudget, size: int) -> None:
    """Take bytes from the budget.

    Raises:
        Refused: The budget is used up (overloaded).
    """
    failure = budget.take_bytes(size) if size > 0 else None
    if failure is not None:
        raise Refused(failure)


async def _received(
    request: web.BaseRequest, limit: int, timeout_s: float, budget: ProducerBudget, taken: list[int]
) -> bytes:
    """Return the body as sent. `taken` holds the number of bytes that the budget has given."""
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout_s):
            await continue_body(request)
            while chunk := await request.content.readany():
                chunks.append(chunk)
                size += len(chunk)
                if size > limit:
                    raise _too_much(size, limit, chunks)
                if size > taken[0]:  # chunked: the size was not declared
                    take(budget, size - taken[0])
                    taken[0] = size
    except TimeoutError:
        detail = f"the body did not arrive within {timeout_s:g} s"
        raise Refused(Failure(Reason.REQUEST_TIMEOUT, detail)) from None
    except BREAKS:
        raise Refused(BROKEN) from None
    return b"".join(chunks)


def is_coded(encoding: bytes) -> bool:
    """Return whether a Content-Encoding requires decompression."""
    return encoding.strip().lower() not in (b"", b"identity")


def waits_for_leave(request: web.BaseRequest) -> bool:
    """Return whether the client waits for `100 Continue` before it sends its body."""
    expects = request.headers.get("Expect", "").strip().lower() == "100-continue"
    return expects and not request.content.is_eof()


async def continue_body(request: web.BaseRequest) -> None:
    """Send `100 Continue` if the client waits for it (RFC 9110, 10.1.1), like curl over 1 MB.

    aiohttp's low-level server does not send it. All checks of the headers must come before.
    """
    if waits_for_leave(request):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer itself has not begun


def decompress(body: bytes, encoding: bytes, limit: int) -> bytes:
    """Undo a Content-Encoding, up to a maximum size.

    Args:
        body: The compressed body.
        encoding: Content-Encoding of the body.
        limit: Maximum size of the decompressed body, in bytes.

    Raises:
        Refused: The body is too large or broken, or its encoding is not supported.
    """
    start = _inflaters(_known(encoding), body, limit)
    chunks: list[bytes] = []
    size = 0
    rest = body
    members = 0
    while rest:
        inflater = start()
        members += 1
        if members > _MAX_MEMBERS:
            raise Refused(malformed(f"more than {_MAX_MEMBERS} compressed parts in one body"))
        while not inflater.eof:
            try:
                chunk = inflater.decompress(rest, min(_STEP_BYTES, limit + 1 - size))
            except (zlib.error, zstd.ZstdError) as error:
                raise Refused(malformed(f"the body does not decompress: {error}")) from None
            rest = _unread(inflater)
            size += len(chunk)
            if size > limit:
                raise Refused(too_large(size, limit, "http.body_max_bytes, decompressed"))
            chunks.append(chunk)
            if not chunk and not rest and not inflater.eof:
                raise Refused(malformed("the compressed body ends too early"))
        rest = inflater.unused_data  # a further gzip member or zstd frame may follow
    return b"".join(chunks)


def _unread(inflater: Inflater) -> bytes:
    """Return the input that zlib returns for the next call; zstd buffers it itself."""
    return getattr(inflater, "unconsumed_tail", b"")


def _known(encoding: bytes) -> bytes:
    """Return the normalised name of an encoding.

    Raises:
        Refused: The encoding is not supported.
    """
    name = encoding.strip().lower()
    if name not in _ENCODINGS:
        detail = f"Content-Encoding {brief(encoding.decode('latin-1'))}: use gzip, deflate or zstd"
        raise Refused(Failure(Reason.UNSUPPORTED_ENCODING, detail))
    return name


def _inflaters(encoding: bytes, body: bytes, limit: int) -> Callable[[], Inflater]:
    if encoding == b"zstd":
        # A frame of 17 bytes may request a window of 128 MiB, which is allocated at once. No
        # window needs to be larger than the content; RFC 9659 allows 8 MiB in any case.
        window_log = max(_WINDOW_LOG, (limit - 1).bit_length())
        return partial(zstd.ZstdDecompressor, options={_WINDOW_LOG_MAX: min(window_log, 30)})
    if encoding == b"deflate":  # RFC 9110 requires zlib's format; some clients send raw data
        window = _ZLIB if body[:1] and body[0] & 0x0F == 8 else _RAW
        return lambda: zlib.decompressobj(window)
    return lambda: zlib.decompressobj(_GZIP)


def _too_much(size: int, limit: int, chunks: list[bytes]) -> TooMuch:
    return TooMuch(too_large(size, limit, "http.body_max_bytes"), chunks)


# ---- streaming of bodies that are too large for memory to the blob store, on claim-check topics
#
# At most a few megabytes of each body are in memory, and only those count in the in-flight budget.
# The event goes on when its blob is stored. Its position among the events of its key counts from
# then, like any request's from its last byte.


_PIECE_BYTES = 262_144
STREAM_BYTES = 16_777_216  # of one stream in memory: pieces, and the parts of an upload to S3


class BodyLimits(NamedTuple):
    """Limits on bodies.

    Attributes:
        stored_bytes: Maximum size of a body that is streamed to the blob store, in bytes.
        memory_bytes: Maximum size of a body in memory, in bytes; of a streamed body, so many bytes
            must arrive within timeout_s.
        timeout_s: Timeout, in seconds.
        json_max_depth: Maximum nesting of JSON documents.
    """

    stored_bytes: int
    memory_bytes: int
    timeout_s: float
    json_max_depth: int


class Bodies:
    """Receiver of bodies.

    Args:
        gate: Checks of the topic's state.
        blobs: The blob store; None if none is configured.
        limits: Limits on bodies.
    """

    def __init__(self, gate: "Gate", blobs: "Blobs | None", limits: BodyLimits) -> None:
        self._gate = gate
        self._blobs = blobs
        self.limits: Final = limits

    async def read(
        self, request: web.BaseRequest, headers: Headers, budget: ProducerBudget
    ) -> bytes:
        """Return a body in memory, as `read_body`."""
        encoding = headers.get(b"content-encoding", b"")
        limits = self.limits
        return await read_body(request, encoding, limits.memory_bytes, limits.timeout_s, budget)

    async def store(
        self,
        request: web.BaseRequest,
        topic: str,
        headers: Headers,
        much: TooMuch,
        budget: ProducerBudget,
    ) -> Streamed:
        """Store the body of a request for which `much` was raised.

        Args:
            request: The request.
            topic: Topic of the request.
            headers: Headers of the request.
            much: The refusal, with the chunks that were already read.
            budget: In-flight budget of the producer.

        Raises:
            Refused: The body was not stored, and no data is left behind. `much` itself, if topic
                or request do not allow streaming.
        """
        blobs, route = self._blobs, self._gate.open(topic)
        if blobs is not None and route.is_behind:
            raise Refused(BEHIND)
        if blobs is None or not takes_streams(route):
            raise much
        event = announced(headers, route)
        if event is None:
            raise much
        self._check(request.content_length or 0)
        chunks = deque(much.chunks)
        held = STREAM_BYTES + sum(map(len, chunks))
        take(budget, held)
        much.chunks.clear()  # the caller holds the list; stored chunks must be freed
        try:
            return await self._store(request, blobs, topic, event, route, chunks)
        except TimeoutError:
            seconds, window = self.limits.timeout_s, self.limits.memory_bytes
            detail = f"{window} bytes of the body did not arrive within {seconds:g} s"
            raise Refused(Failure(Reason.REQUEST_TIMEOUT, detail)) from None
        except BREAKS:
            raise Refused(BROKEN) from None
        finally:
            budget.give(held, 0)

    async def _store(
        self,
        request: web.BaseRequest,
        blobs: "Blobs",
        topic: str,
        event: Announced,
        route: Route,
        chunks: deque[bytes],
    ) -> Streamed:
        inspector = BodyInspector(event, route, self.limits.json_max_depth)
        stream = await blobs.begin(inspector.take)
        try:
            async for piece in self._pieces(request, chunks):
                await stream.write(piece)
            digest = inspector.end()
            stored = await stream.commit(topic)
        except BaseException:
            await stream.abort()
            raise
        return Streamed(event.event, stored, digest)

    async def _pieces(self, request: web.BaseRequest, chunks: deque[bytes]) -> AsyncIterator[bytes]:
        """Yield the body in pieces, from its first byte."""
        total = 0
        arriving = self._arriving(request)
        while True:
            piece, size = list[bytes](), 0
            while size < _PIECE_BYTES:
                chunk = chunks.popleft() if chunks else await anext(arriving, b"")
                if not chunk:
                    break
                piece.append(chunk)
                size += len(chunk)
            if not size:
                return
            total += size
            self._check(total)
            yield b"".join(piece)

    async def _arriving(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        """Yield the chunks that still arrive; each window has the full timeout."""
        loop, (_, window, seconds, _) = asyncio.get_running_loop(), self.limits
        await continue_body(request)
        left_s, arrived = seconds, 0
        while True:
            since = loop.time()
            async with asyncio.timeout(left_s):
                chunk = await request.content.readany()
            if not chunk:
                return
            yield chunk
            left_s -= loop.time() - since
            arrived += len(chunk)
            if arrived >= window:
                left_s, arrived = seconds, 0

    def _check(self, size: int) -> None:
        if size > self.limits.stored_bytes:
            raise Refused(too_large(size, self.limits.stored_bytes, "blobs.max_bytes"))
