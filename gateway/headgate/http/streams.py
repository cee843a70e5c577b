"""Streaming of bodies that are too large for memory to the blob store, on claim-check topics.

At most a few megabytes of each body are in memory, and only those count in the in-flight budget.
The event goes on when its blob is stored. Its position among the events of its key counts from
then, like any request's from its last byte.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, Protocol

from aiohttp import web

from headgate.formats.decode import Headers
from headgate.formats.streamed import Announced, BodyInspector, Streamed, announced, takes_streams
from headgate.http.body import BREAKS, BROKEN, Budget, continue_body, take
from headgate.ingest.gate import Gate
from headgate.ingest.path import Inbound
from headgate.model.outcome import Failure, Reason, Refused, TooMuch
from headgate.model.oversize import StoredBlob
from headgate.model.publish import Decoded
from headgate.model.route import BEHIND, Route, too_large

_PIECE_BYTES = 262_144
STREAM_BYTES = 16_777_216  # of one stream in memory: pieces, and the parts of an upload to S3


class Upload(Protocol):
    """An upload of a blob (`blobs.blobs.BlobStream`)."""

    async def write(self, data: bytes) -> None: ...

    async def commit(self, topic: str) -> StoredBlob: ...

    async def abort(self) -> None: ...


class UploadStore(Protocol):
    """A store for uploads (`blobs.blobs.Blobs`). `inspect` gets pieces in a thread."""

    async def begin(self, inspect: Callable[[bytes], None]) -> Upload: ...


class StreamLimits(NamedTuple):
    """Limits on streamed bodies.

    Attributes:
        max_bytes: Maximum size of a body, in bytes.
        window_bytes: Number of bytes that must arrive within timeout_s.
        timeout_s: Timeout of each window, in seconds.
        json_max_depth: Maximum nesting of JSON documents.
    """

    max_bytes: int
    window_bytes: int
    timeout_s: float
    json_max_depth: int


class Streams:
    """Receiver of streamed bodies.

    Args:
        gate: Checks of the topic's state.
        blobs: The blob store; None if none is configured.
        limits: Limits on streamed bodies.
    """

    def __init__(
        self,
        gate: Gate,
        blobs: UploadStore | None,
        limits: StreamLimits,
    ) -> None:
        self._gate = gate
        self._blobs = blobs
        self._limits = limits

    async def receive(
        self,
        request: web.BaseRequest,
        topic: str,
        headers: Headers,
        much: TooMuch,
        budget: Budget,
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
            seconds, window = self._limits.timeout_s, self._limits.window_bytes
            detail = f"{window} bytes of the body did not arrive within {seconds:g} s"
            raise Refused(Failure(Reason.REQUEST_TIMEOUT, detail)) from None
        except BREAKS:
            raise Refused(BROKEN) from None
        finally:
            budget.give(held, 0)

    async def _store(
        self,
        request: web.BaseRequest,
        blobs: UploadStore,
        topic: str,
        found: Announced,
        route: Route,
        chunks: deque[bytes],
    ) -> Streamed:
        inspector = BodyInspector(found, route, self._limits.json_max_depth)
        stream = await blobs.begin(inspector.take)
        try:
            async for piece in self._pieces(request, chunks):
                await stream.write(piece)
            digest = inspector.end()
            stored = await stream.commit(topic)
        except BaseException:
            await stream.abort()
            raise
        return Streamed(found.event, stored, digest)

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
        loop, (_, window, seconds, _) = asyncio.get_running_loop(), self._limits
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
        if size > self._limits.max_bytes:
            raise Refused(too_large(size, self._limits.max_bytes, "blobs.max_bytes"))


def streamed(inbound: Inbound, route: Route) -> Decoded:
    """Return the decoded event of a streamed request, for the pipeline."""
    value = inbound.streamed
    return Decoded([] if value is None else [value.event], False)
