"""Bodies that are too large for memory, on topics with claim-check: straight to the blob store.

At most a few megabytes of each are in memory, and only those count in the in-flight budget. The
event is handed on when its blob is there; its order within its key counts from then, as any
request's does from its last byte.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, Protocol

from aiohttp import web

from headgate.core.event import Decoded
from headgate.core.formats.decode import Headers
from headgate.core.outcome import Failure, Reason
from headgate.core.oversize.chunks import (
    Announced,
    BodyInspector,
    Streamed,
    announced,
    takes_streams,
)
from headgate.core.oversize.limits import BEHIND, too_large
from headgate.core.oversize.strategies import StoredBlob
from headgate.core.refusal import Refused, TooMuch
from headgate.core.topics.route import Route
from headgate.edge.body import BREAKS, BROKEN, Budget, continue_body, take
from headgate.pipeline.gate import Gate
from headgate.pipeline.pipeline import Inbound

_PIECE_BYTES = 262_144
STREAM_BYTES = 16_777_216  # of one stream in memory: pieces, and the parts of an upload to S3


class Upload(Protocol):
    """A blob on its way (`backends.blobs.blobs.BlobStream`)."""

    async def write(self, data: bytes) -> None: ...

    async def commit(self, topic: str) -> StoredBlob: ...

    async def abort(self) -> None: ...


class UploadStore(Protocol):
    """Where they go (`backends.blobs.blobs.Blobs`). inspect: gets each piece, in a thread."""

    async def begin(self, inspect: Callable[[bytes], None]) -> Upload: ...


class StreamLimits(NamedTuple):
    """max_bytes: of a body.  window_bytes: so much may take timeout_s to arrive."""

    max_bytes: int
    window_bytes: int
    timeout_s: float
    json_max_depth: int


class Streams:
    """blobs: None where no store is configured."""

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
        """Store the body of a request that `much` was raised for. Raises Refused, with nothing
        left behind: `much` itself where the topic or the request is not for that.

        budget: its producer's.
        """
        blobs, route = self._blobs, self._gate.open(topic)
        if blobs is not None and route.is_behind:
            raise Refused(BEHIND)
        if blobs is None or not takes_streams(route):
            raise much
        found = announced(headers, route)
        if found is None:
            raise much
        self._check(request.content_length or 0)
        chunks = deque(much.chunks)
        held = STREAM_BYTES + sum(map(len, chunks))
        take(budget, held)
        much.chunks.clear()  # others hold the list, and the chunks must go as they are stored
        try:
            return await self._store(request, blobs, topic, found, route, chunks)
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
        """The body from its first byte, some at a time."""
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
        """What the client still sends; each window has the whole of its time."""
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
    """What the pipeline decodes of a streamed event."""
    value = inbound.streamed
    return Decoded([] if value is None else [value.event], False)
