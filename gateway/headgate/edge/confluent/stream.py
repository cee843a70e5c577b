"""A connection that streams records in and their reports out, with bounds on both.

What is read and not answered yet is bounded: a client that does not read its reports is not read
from either. Each side has one coroutine, and neither outlives the request.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress

from aiohttp import ClientPayloadError, web
from aiohttp.http_exceptions import HttpProcessingError

from headgate.core.formats.concatenated import PIECE_BYTES, Documents
from headgate.core.formats.confluent_v3 import TYPE
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused
from headgate.edge.body import BROKEN, continue_body
from headgate.edge.confluent.group import SEPARATOR, Group, ProduceTarget, failure_line
from headgate.edge.cors import CORS_HEADERS
from headgate.edge.peer import peer_of

GROUP_RECORDS = 50  # start together, and are answered together
GROUPS_AHEAD = 8  # started and not answered yet
SILENCE_S = 300.0  # between two records; then the stream is ended, as idle connections are
_IDENTIFIED_S = 1.0  # so long a caller is taken for whom it was, unless callers are reloaded
_GONE = (ConnectionError, ClientPayloadError)


class RecordStream:
    """max_bytes: of one record.  idle_s: how long silence may last within a record."""

    def __init__(
        self, target: ProduceTarget, request: web.BaseRequest, max_bytes: int, idle_s: float
    ) -> None:
        self._target = target
        self._budget = target.events.budget.of(target.producer)
        self._request = request
        self._documents = Documents(max_bytes)
        self._idle_s = idle_s
        self._held = 0  # bytes taken from the budget that no group has
        self._queue: asyncio.Queue[Group | Failure | None] = asyncio.Queue(GROUPS_AHEAD)
        self._callers = target.events.callers
        self._identified_s = target.events.now()

    async def run(self) -> web.StreamResponse:
        """Answer 200 at once; what becomes of each record, its report says."""
        response = web.StreamResponse(headers={"X-Request-Id": self._target.request_id})
        response.headers.update(self._request.get(CORS_HEADERS, {}))
        response.content_type = TYPE
        response.enable_chunked_encoding()
        await continue_body(self._request)
        await response.prepare(self._request)
        with suppress(*_GONE):  # what was started goes on and is counted; nobody reads it
            await self._both(response)
        if not self._request.content.is_eof():
            response.force_close()
        return response

    async def _both(self, response: web.StreamResponse) -> None:
        writing = asyncio.ensure_future(self._write(response))
        reading = asyncio.ensure_future(self._read())
        try:
            done, _ = await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_EXCEPTION)
            for one in done:
                one.result()
        finally:
            for one in (reading, writing):
                one.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
            self._give(self._held)

    # ---- in

    async def _read(self) -> None:
        try:
            while piece := await self._piece():
                self._take(len(piece))
                if not await self._start(self._documents.feed(piece)):
                    break
                self._documents.check()
                await asyncio.sleep(0)  # what has arrived is read without a wait
            else:
                self._documents.end()
        except Refused as refused:  # where the next record would begin cannot be told
            await self._queue.put(refused.failure)
        await self._queue.put(None)

    async def _piece(self) -> bytes:
        within = self._documents.pending > 0
        try:
            async with asyncio.timeout(self._idle_s if within else SILENCE_S):
                return await self._request.content.read(PIECE_BYTES)
        except TimeoutError:
            detail = "the stream kept silent for too long" + (" within a record" if within else "")
            raise Refused(Failure(Reason.REQUEST_TIMEOUT, detail)) from None
        except (ClientPayloadError, HttpProcessingError):
            raise Refused(BROKEN) from None

    async def _start(self, texts: Sequence[bytes]) -> bool:
        """Start records; False = there is no going on, and the last report says why."""
        for some in _groups(texts):
            self._identify_again()
            body = b"".join(some)
            self._held -= len(body)
            group = Group(self._target, some, body)
            await self._queue.put(group)  # waits here while too much is not answered yet
            refusal = group.refusal
            if group.is_broken or (refusal is not None and refusal.reason is Reason.DRAINING):
                return False
        self._give(self._held - self._documents.pending)  # blanks between records
        return True

    def _identify_again(self) -> None:
        """Raises Refused if the caller may not post any more: a reload took its token away, or its
        token or certificate has expired."""
        target, events = self._target, self._target.events
        now = events.now()
        if events.callers is self._callers and now - self._identified_s < _IDENTIFIED_S:
            return
        self._callers, self._identified_s = events.callers, now
        peer = peer_of(self._request)
        caller = events.may_post(target.headers, peer, target.topic, target.request_id)
        if caller.name != target.producer:
            detail = f"these credentials are no longer those of producer {target.producer!r}"
            raise Refused(Failure(Reason.UNAUTHENTICATED, detail))

    def _take(self, size: int) -> None:
        failure = self._budget.take_bytes(size)
        if failure is not None:
            raise Refused(failure)
        self._held += size

    def _give(self, size: int) -> None:
        self._budget.give(size, 0)
        self._held -= size

    # ---- out

    async def _write(self, response: web.StreamResponse) -> None:
        while (found := await self._queue.get()) is not None:
            if isinstance(found, Failure):
                lines = [failure_line(found)]
            else:
                await found.ended()
                lines = found.lines()
            await response.write(b"".join(line + SEPARATOR for line in lines))
        await response.write_eof()


def _groups(texts: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for at in range(0, len(texts), GROUP_RECORDS):
        yield texts[at : at + GROUP_RECORDS]
