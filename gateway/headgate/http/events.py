"""The front for posting events: the route that must be cheap, and fair to all producers."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

from aiohttp import web

from headgate.formats.json_text import Weight, heaviest
from headgate.http.answer import response_to
from headgate.http.auth import ANONYMOUS, Authenticator, Identity, Peer, peer_of
from headgate.http.body import Bodies, waits_for_leave
from headgate.http.connection import (
    INTERNAL_ERROR,
    MAX_BYTES,
    MAYBE_WRITTEN,
    PlainHead,
    PlainPosts,
    on_the_wire,
)
from headgate.http.request_log import REPORTED, TRACE, RequestLog
from headgate.idempotency.identity import EVENTS, RequestIdentity, marked
from headgate.idempotency.rules import IDEMPOTENCY_KEY, KeyedRequest
from headgate.ingest.admission import DRAINING, ProducerQuotas
from headgate.ingest.deadlines import Deadlines
from headgate.ingest.path import Decode, Pipeline
from headgate.metrics.meter import Meter
from headgate.model.outcome import (
    OVERLOADED_RETRY_S,
    TRAITS,
    Failure,
    Reason,
    Refused,
    TooMuch,
    brief,
    rejected,
)
from headgate.model.publish import Attempt, Ticket
from headgate.model.reply import Reply, problem, reply_of
from headgate.model.request import read_options, with_query_key
from headgate.model.trace import TRACEPARENT, Trace
from headgate.offload.helper_process import PoolWeigher
from headgate.tracing.spans import Traces

ROUTE: Final = "/v1/topics/{topic}/events"
PATH_SHOWN: Final = 1024  # characters of a path in a span
_NOT_ALL_WELL: Final = 207
_EXCEEDED: Final = TRAITS[Reason.QUOTA_EXCEEDED].status
_REQUEST_ID_MAX: Final = 128
_INTERNAL_STATUS: Final = 500

Ended = Callable[[Ticket], None]

log = logging.getLogger("headgate.http")


class Call(NamedTuple):
    """A request of aiohttp, and its context.

    Attributes:
        request: The request.
        headers: Headers, with names in lower case, and with the context of a sampled request.
        request_id: Id of the request.
        arrived: Monotonic time of its arrival, in seconds.
        reported: Request id and, once known, producer, for the log.
    """

    request: web.BaseRequest
    headers: dict[bytes, bytes]
    request_id: str
    arrived: float
    reported: dict[str, str]

    @property
    def producer(self) -> str:
        """Return the name of the producer; empty as long as it is not known."""
        return self.reported["producer"]


# ---- fair scheduling of requests while several producers share one event loop
#
# Each request delays the requests of other producers. If a producer is alone, nothing is counted.
# If there are several, each may start a share of work in a round, and its other requests wait in
# its own queue for the next rounds (deficit round robin: M. Shreedhar and G. Varghese, "Efficient
# Fair Queuing Using Deficit Round Robin", 1996). The share depends on the event loop: a late round
# shows that the loop is full and reduces the share; a round in time increases it (additive
# increase, multiplicative decrease, as in TCP). A flood therefore gets the remaining capacity, and
# its other requests wait in front of the loop, not in it.


Waiting = TypeVar("Waiting")

ROUND_S: Final = 0.001  # event loops count milliseconds
# A request costs its bytes plus this: a single event of 650 bytes takes about 30 us of the loop,
# one of 50 in a batch 8 us (loadtest/README.md), so 1,000 bytes take 12 to 15 us.
REQUEST_BYTES: Final = 1500
MAX_SHARE: Final = 65_536  # about a round's time
MIN_SHARE: Final = 4096  # two single events a round, also if the loop is full
STEP: Final = 4096
LATE_S: Final = 0.001
# Time after a second producer's request until the first one counts as alone again, and time after
# the last request that had to wait until the instance is not pressed any more.
COMPANY_S: Final = 1.0


class FairShares(Generic[Waiting]):
    """Shares of the event loop: callers report each request and the beginning of each round.

    Attributes:
        share: Bytes that each producer may start in a round.
        waiting: The number of requests that wait.
        waited: The number of requests that had to wait so far.
    """

    def __init__(self) -> None:
        self.share = MAX_SHARE
        self.waiting = self.waited = 0
        self._latest: str | None = None
        self._company_until = self._pressed_until = 0.0
        self._spent: dict[str, int] = {}
        self._lines: dict[str, deque[tuple[int, Waiting]]] = {}

    @property
    def needs_round(self) -> bool:
        """Return whether any producer needs the next round."""
        return bool(self._spent)

    def is_pressed(self, now_s: float) -> bool:
        """Return whether a producer wants more than its share while there are others."""
        return now_s < self._pressed_until

    def try_start(self, producer: str, size: int, now_s: float) -> bool:
        """Charge a request to its producer's share if it may start now; otherwise it has to `wait`.

        Args:
            producer: The name of the producer.
            size: The bytes of the request.
            now_s: Monotonic time, in seconds.
        """
        if self._latest is None:  # the first producer is alone
            self._latest = producer
        if producer != self._latest:
            self._latest = producer
            self._company_until = now_s + COMPANY_S
        elif now_s >= self._company_until:
            return True  # its waiting requests start with the next rounds
        spent = self._spent.get(producer, 0)
        if spent >= self.share:  # always true while requests of this producer wait
            self._pressed_until = now_s + COMPANY_S
            return False
        self._spent[producer] = spent + size + REQUEST_BYTES
        return True

    def wait(self, producer: str, size: int, request: Waiting) -> None:
        """Append a request to the queue of its producer."""
        line = self._lines.get(producer)
        if line is None:
            line = self._lines[producer] = deque()
        line.append((size, request))
        self.waiting += 1
        self.waited += 1

    def begin_round(self, late_s: float) -> list[Waiting]:
        """Begin a round, and return the requests that start with it.

        The work of a producer above its share counts in the next rounds.

        Args:
            late_s: The delay of the round, in seconds.
        """
        share = self.share
        self._spent = {
            producer: spent - share for producer, spent in self._spent.items() if spent > share
        }
        if late_s > LATE_S:
            self.share = max(MIN_SHARE, share * 3 // 4)
        else:
            self.share = min(MAX_SHARE, share + STEP)
        started: list[Waiting] = []
        for producer in list(self._lines):
            self._release(producer, started)
        return started

    def _release(self, producer: str, started: list[Waiting]) -> None:
        line, spent = self._lines[producer], self._spent.get(producer, 0)
        while line and spent < self.share:
            size, request = line.popleft()
            self.waiting -= 1
            spent += size + REQUEST_BYTES
            started.append(request)
        self._spent[producer] = spent
        if not line:
            del self._lines[producer]


class FairQueue:
    """A queue that shares the event loop fairly among producers.

    Args:
        max_wait_s: Longest wait of a request, in seconds; then it is refused.
        clock: Monotonic clock, in seconds. The event loop's clock is too coarse: it stands
            still during a turn of the loop.
        round_s: Length of a round, in seconds.
    """

    def __init__(
        self,
        max_wait_s: float,
        clock: Callable[[], float] = time.monotonic,
        round_s: float = ROUND_S,
    ) -> None:
        self._max_wait_s: Final = max_wait_s
        self._loop: Final = asyncio.get_running_loop()
        self._clock: Final = clock
        self._round_s: Final = round_s
        self._shares: Final = FairShares[Callable[[], None]]()
        self._due: float | None = None

    @property
    def waited(self) -> int:
        """Return the number of requests that had to wait so far."""
        return self._shares.waited

    def is_pressed(self) -> bool:
        """Return whether a producer waits, or waited recently, while other producers send."""
        return self._shares.is_pressed(self._clock())

    def try_start(self, ticket: Ticket) -> bool:
        """Charge a request to the share of its producer; return False if it must `wait`."""
        shares = self._shares
        may_start = shares.try_start(ticket.producer, ticket.body_bytes, ticket.arrived)
        if self._due is None and shares.needs_round:
            self._schedule()
        return may_start

    def wait(self, ticket: Ticket, start: Callable[[], None]) -> None:
        """Queue a request; `start` is called when the request may start."""
        self._shares.wait(ticket.producer, ticket.body_bytes, start)

    def refusal(self, ticket: Ticket) -> Failure | None:
        """Return the failure if a request has waited too long."""
        if self._loop.time() - ticket.arrived <= self._max_wait_s:
            return None
        detail = f"producer {brief(ticket.producer)} sends more than its share of this instance"
        detail += f": this waited {self._max_wait_s:g} s; nothing was written"
        return Failure(
            Reason.OVERLOADED, detail, {"limit": "share"}, retry_after_s=OVERLOADED_RETRY_S
        )

    def _schedule(self) -> None:
        self._due = self._clock() + self._round_s
        self._loop.call_later(self._round_s, self.begin_round)

    def begin_round(self) -> None:
        """Start the requests that may start with the next round."""
        due, self._due = self._due, None
        late_s = 0.0 if due is None else self._clock() - due
        for start in self._shares.begin_round(late_s):
            try:
                start()
            except Exception:  # the outermost frame of this request
                log.exception("request failed")
        if self._due is None and self._shares.needs_round:
            self._schedule()


# ---- POST /v1/topics/{topic}/events


@contextmanager
def maybe_written() -> Iterator[None]:
    """Refuse a request as `unknown` after an error: its events may be on their way."""
    try:
        yield
    except Refused:
        raise
    except Exception:
        log.exception("request failed")
        raise Refused(MAYBE_WRITTEN) from None


class EventsFront:
    """Front that turns requests into tickets, and tickets into responses.

    Requests come in two ways: aiohttp calls `post`, and a connection that reads plain posts itself
    calls `begin` and `finish`. Both check the caller with `caller`, start with `start`, and get
    their response from `reply_to`; or from `reply_to_refused`, if they end before the pipeline.

    Args:
        pipeline: The pipeline.
        authenticator: Identifies callers; a reload replaces it as a whole.
        keys: Claims of Idempotency-Keys.
        deadlines: Deadlines of started requests.
        queue: Queue of requests whose producer has used up its share.
        quotas: Quotas of producers.
        weigher: Search for the largest paths of documents in a helper process.
        meter: Counter of requests.
        bodies: Receiver of bodies.
        request_ids: Generates request ids.
        request_log: Log of requests.
        traces: Open traces; None without tracing.

    Attributes:
        plain_posts: Requests that connections may answer themselves.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        authenticator: Authenticator,
        keys: RequestIdentity,
        deadlines: Deadlines,
        queue: FairQueue,
        quotas: ProducerQuotas,
        weigher: PoolWeigher,
        meter: Meter,
        bodies: Bodies,
        request_ids: Callable[[], str],
        request_log: RequestLog,
        traces: Traces | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.budget = pipeline.admission
        self.authenticator = authenticator
        self.request_log = request_log
        self.traces = traces
        # aiohttp reads larger bodies, up to the limit.
        self.plain_posts = PlainPosts(min(MAX_BYTES, bodies.limits.memory_bytes))
        self._keys = keys
        self._deadlines = deadlines
        self._queue = queue
        self._quotas = quotas
        self._weigher = weigher
        self._meter = meter
        self._bodies = bodies
        self._request_ids = request_ids
        self._logs_every_request = request_log.logs_every_request
        self._loop = asyncio.get_running_loop()

    # ---- requests of aiohttp's connections

    async def post(self, request: web.BaseRequest, topic: str) -> web.StreamResponse:
        """Respond once every event of the request has ended, or at the deadline."""
        call, caller = self.call_of(request), None
        try:
            caller = self.admit_call(call, topic)
            headers = with_query_key(call.headers, request.rel_url.raw_query_string)
            call = call._replace(headers=headers)
            self.look_first(call, topic)
            ticket = await self._ticket(call, topic, caller)
        except Refused as refused:
            failure = refused.failure
            if caller is not None:
                failure = self.pipeline.gate.with_suggestion(failure, topic, caller.may_post)
            producer = call.reported["producer"] = call.producer or refused.producer
            seconds, trace = self._loop.time() - call.arrived, request.get(TRACE)
            reply = self.reply_to_refused(
                failure, topic, producer, call.request_id, seconds, trace, request.remote
            )
        else:
            ticket = await self.run(ticket)
            with maybe_written():
                for index, document in ticket.weighing or ():
                    _put_weights(ticket, index, await self._weigher.weigh(document))
            ticket.weighing = None
            reply = self.reply_to(ticket, self._loop.time() - call.arrived)
        if self._logs_every_request:
            request[REPORTED] = call.reported
        return response_to(request, reply, call.request_id)

    def call_of(self, request: web.BaseRequest) -> Call:
        """Return a request of aiohttp that begins now, with its context."""
        headers = {name.lower(): value for name, value in request.raw_headers}
        trace = request.get(TRACE)
        if trace is not None:
            headers[TRACEPARENT] = trace.context
        request_id = self.request_id(headers)
        reported = {"request_id": request_id, "producer": ""}
        return Call(request, headers, request_id, self._loop.time(), reported)

    def admit_call(self, call: Call, topic: str) -> Identity:
        """Return the caller like `admit_caller`, and note its name."""
        caller = self.admit_caller(call.headers, peer_of(call.request), topic, call.request_id)
        call.reported["producer"] = caller.name
        return caller

    def identify(self, call: Call) -> Identity:
        """Return the caller whatever it may do, and note its name.

        Raises:
            Refused: The authentication failed.
        """
        caller = self.authenticator.identify(call.headers, peer_of(call.request))
        if isinstance(caller, Failure):
            raise Refused(caller)
        call.reported["producer"] = caller.name
        return caller

    async def _ticket(self, call: Call, topic: str, caller: Identity) -> Ticket:
        """Return the request for the pipeline, with its body in memory or in the blob store."""
        producer = caller.name
        body, value, budget = b"", None, self.budget.of(producer)
        try:
            try:
                body = await self._bodies.read(call.request, call.headers, budget)
            except TooMuch as much:
                value = await self._bodies.store(call.request, topic, call.headers, much, budget)
        except Refused as refused:
            self._count(producer, topic, refused.failure, call.request_id)
            raise
        return Ticket(
            topic,
            producer,
            call.request_id,
            self._loop.time(),
            call.headers,
            body,
            value,
            caller.may_post,
            call.request.get(TRACE),
        )

    async def body(self, call: Call, topic: str) -> bytes:
        """Return the decompressed body; its bytes are taken from the producer's budget.

        Raises:
            Refused: The request is refused, or its body is too large, late or broken.
        """
        self.look_first(call, topic, needs_offset=True)
        try:
            budget = self.budget.of(call.producer)
            return await self._bodies.read(call.request, call.headers, budget)
        except Refused as refused:
            self._count(call.producer, topic, refused.failure, call.request_id)
            raise

    def look_first(self, call: Call, topic: str, *, needs_offset: bool = False) -> None:
        """Check a request whose client waits with its body (`Expect`), before asking for the body.

        Args:
            call: The request.
            topic: Topic of the request.
            needs_offset: Whether the response must contain offsets (`Gate.open`).

        Raises:
            Refused: The request would be refused whatever its body contains.
        """
        if not waits_for_leave(call.request):
            return
        try:
            self.pipeline.gate.open(topic, needs_offset=needs_offset)
            read_options(call.headers)
        except Refused as refused:
            failure: Failure | None = refused.failure
        else:
            failure = self._quotas.refusal(call.producer, call.request.content_length or 0)
        if failure is not None:
            self._count(call.producer, topic, failure, call.request_id)
            raise Refused(failure)

    # ---- plain posts that a connection has read itself

    def begin(self, head: PlainHead, body: bytes, peer: Peer, ended: Ended) -> bytes | None:
        """Start a complete request without task or future; otherwise like `post`.

        Args:
            head: Head of the request.
            body: Body of the request.
            peer: Peer of the connection.
            ended: Callback with the ticket for `finish`; it may be called before this returns.

        Returns:
            The response to a request that is refused at once; None if `ended` is called.
        """
        trace = None if self.traces is None else self.traces.begin(head.headers)
        if self.traces is None or trace is None:
            return self._begin(head, body, peer, ended, None)
        trace.path = ROUTE.replace("{topic}", head.topic)[:PATH_SHOWN]
        try:
            headers = {**head.headers, TRACEPARENT: trace.context}
            return self._begin(PlainHead(head.topic, headers), body, peer, ended, trace)
        except BaseException:
            self.traces.end(trace, _INTERNAL_STATUS)
            raise

    def _begin(
        self, head: PlainHead, body: bytes, peer: Peer, ended: Ended, trace: Trace | None
    ) -> bytes | None:
        arrived, topic, headers = self._loop.time(), head.topic, head.headers
        request_id, size = self.request_id(headers), len(body)
        try:
            caller = self.admit_caller(headers, peer, topic, request_id)
        except Refused as refused:
            failure, producer = refused.failure, refused.producer
        else:
            producer = caller.name
            refusal = self.budget.take_bytes(producer, size)
            if refusal is None:
                ticket = Ticket(
                    topic,
                    producer,
                    request_id,
                    arrived,
                    headers,
                    body,
                    None,
                    caller.may_post,
                    trace,
                    head.options,
                )
                self.start(ticket, ended)
                return None
            failure = refusal
            self._count(producer, topic, failure, request_id)
        reply = self.reply_to_refused(
            failure, topic, producer, request_id, 0.0, trace, peer.address
        )
        if trace is not None and self.traces is not None:
            self.traces.end(trace, reply.status)
        if self._logs_every_request:
            self._log_served(
                topic, reply.status, size, 0.0, request_id, producer, trace, peer.address
            )
        return on_the_wire(reply, request_id)

    def finish(self, ticket: Ticket, remote: str | None = None) -> bytes:
        """Return the response to a ticket of `begin`. `remote` is the address of the client."""
        seconds = self._loop.time() - ticket.arrived + ticket.claimed_s
        status = _INTERNAL_STATUS
        try:
            reply = self.reply_to(ticket, seconds)
            status = reply.status
        finally:
            if ticket.trace is not None and self.traces is not None:
                self.traces.end(ticket.trace, status)
        if self._logs_every_request:
            self._log_served(
                ticket.topic,
                status,
                ticket.body_bytes,
                seconds,
                ticket.request_id,
                ticket.producer,
                ticket.trace,
                remote,
            )
        return on_the_wire(reply, ticket.request_id)

    def _log_served(
        self,
        topic: str,
        status: int,
        size: int,
        seconds: float,
        request_id: str,
        producer: str,
        trace: Trace | None,
        remote: str | None,
    ) -> None:
        """Log a request of `begin` and `finish`; the connection logs all others."""
        path = ROUTE.replace("{topic}", quote(topic, safe=""))
        fields = {"request_id": request_id, "producer": producer, "remote": remote}
        self.request_log.served("POST", path, status, size, seconds, trace, **fields)

    # ---- both: the caller

    def admit_caller(
        self, headers: Mapping[bytes, bytes], peer: Peer, topic: str, request_id: str
    ) -> Identity:
        """Return the caller, if it may post to the topic.

        Raises:
            Refused: The gateway drains, the authentication failed, or the caller may not post to
                the topic.
        """
        if self.budget.is_closed:
            raise Refused(DRAINING)
        return self.authorise(headers, peer, topic, request_id)

    def authorise(
        self, headers: Mapping[bytes, bytes], peer: Peer, topic: str, request_id: str
    ) -> Identity:
        """Return the caller, if it may post to the topic, even while the gateway drains.

        Raises:
            Refused: The authentication failed, or the caller may not post to the topic.
        """
        caller = self.authenticator.identify(headers, peer)
        if isinstance(caller, Failure):
            self._count(ANONYMOUS, topic, caller, request_id)
            raise Refused(caller)
        if not caller.may_post(topic):
            failure = caller.refusal(topic)
            self._count(caller.name, topic, failure, request_id)
            raise Refused(failure, caller.name)
        return caller

    def now(self) -> float:
        """Return the monotonic time, in seconds."""
        return self._loop.time()

    def request_id(self, headers: Mapping[bytes, bytes]) -> str:
        """Return the client's request id if it is valid, else a new one."""
        given = headers.get(b"x-request-id")
        if given is not None and 0 < len(given) <= _REQUEST_ID_MAX:
            shown = given.decode("latin-1")
            if shown.isascii() and shown.isprintable():
                return shown
        return self._request_ids()

    # ---- both: from a request to its ticket

    def start(
        self,
        ticket: Ticket,
        ended: Ended,
        decode_as: Decode | None = None,
        endpoint: bytes = EVENTS,
    ) -> None:
        """Start a request within its producer's share, with Idempotency-Key and deadline.

        Args:
            ticket: The request; the bytes of its body were taken from the budget.
            ended: Called once with the ticket, when its response may be sent; perhaps before this
                returns.
            decode_as: Decodes the body for a front of another protocol.
            endpoint: Endpoint of the request, and its parameters besides the topic.
        """
        ticket.waiter = ended
        if not self._queue.try_start(ticket):
            self._queue.wait(ticket, partial(self._start_late, ticket, decode_as, endpoint))
        elif IDEMPOTENCY_KEY in ticket.headers:
            self._claim(ticket, decode_as, endpoint)
        else:
            self._take(ticket, decode_as)

    async def run(
        self, ticket: Ticket, decode_as: Decode | None = None, endpoint: bytes = EVENTS
    ) -> Ticket:
        """Start a request like `start`, and wait until its response may be sent.

        Returns:
            The ticket to answer: another one after an internal error.
        """
        done: asyncio.Future[Ticket] = self._loop.create_future()
        self.start(ticket, partial(_settle, done), decode_as, endpoint)
        return await done

    def run_part(self, ticket: Ticket, decode_as: Decode) -> asyncio.Future[Ticket]:
        """Start events of a request that was started before.

        Returns:
            A future that is done when all events have ended, or at the deadline.
        """
        done: asyncio.Future[Ticket] = self._loop.create_future()
        ticket.waiter = partial(_settle, done)
        self._take(ticket, decode_as)
        return done

    def _take(self, ticket: Ticket, decode_as: Decode | None) -> None:
        """Pass a request to the pipeline.

        Raises:
            Refused: An error, after which its events may be on their way.
        """
        try:
            self.pipeline.take(ticket, decode_as)
        except Exception:
            if not ticket.publishes:
                raise
            log.exception("request failed")
            if not ticket.done:
                ticket.waiter = None  # the end comes after the answer
                raise Refused(MAYBE_WRITTEN) from None
        if not ticket.done:
            self._deadlines.watch(ticket)

    def _start_late(self, ticket: Ticket, decode_as: Decode | None, endpoint: bytes) -> None:
        """Start a request that has waited for a later round."""
        failure = self._queue.refusal(ticket)
        if failure is None and IDEMPOTENCY_KEY in ticket.headers:
            self._claim(ticket, decode_as, endpoint)
        else:
            self._go_on(ticket, decode_as, failure)

    def _claim(self, ticket: Ticket, decode_as: Decode | None, endpoint: bytes) -> None:
        """Claim the request's Idempotency-Key, then go on."""
        try:
            route = self.pipeline.gate.open(ticket.topic, needs_offset=decode_as is not None)
        except Refused:
            self._go_on(ticket, decode_as, None)  # the pipeline refuses and counts it
            return
        value = ticket.streamed
        body = ticket.body if value is None else value.stored.sha256.encode()
        refuse = route.policy.redis_loss == "refuse"
        self._keys.begin(
            KeyedRequest(
                endpoint, route.state.topic_id, ticket.producer, ticket.headers, body, refuse
            ),
            partial(self._go_on, ticket, decode_as),
        )

    def _go_on(
        self, ticket: Ticket, decode_as: Decode | None, attempt: Attempt | Failure | None
    ) -> None:
        """Pass a request that has waited, for a later round or for Redis, to the pipeline.

        Args:
            ticket: The request.
            decode_as: As for `start`.
            attempt: Attempt of its Idempotency-Key; or the failure, if the request is refused.
        """
        arrived, ticket.arrived = ticket.arrived, self._loop.time()
        ticket.claimed_s = ticket.arrived - arrived
        ended = ticket.waiter
        assert ended is not None  # `start` has set it
        try:
            if isinstance(attempt, Failure):
                self.pipeline.refuse(ticket, attempt)
            else:
                ticket.attempt = attempt
                if attempt is not None and attempt.request is not None:
                    ticket.waiter = partial(self._when_reported, ended)
                self._take(ticket, decode_as)
        except Exception as error:  # the outermost frame of this request
            if isinstance(error, Refused):
                failure = error.failure
            else:
                log.exception("request failed")
                failure = INTERNAL_ERROR
            failed = Ticket(
                ticket.topic, ticket.producer, ticket.request_id, arrived, trace=ticket.trace
            )
            failed.refuse_request(rejected(failure))
            ended(failed)

    def _when_reported(self, ended: Ended, ticket: Ticket) -> None:
        """Call back once the end is in Redis, so that a repeat gets the same response."""
        assert ticket.attempt is not None
        self._keys.when_reported(ticket.attempt, partial(ended, ticket))

    # ---- both: from a ticket to its response

    def reply_to(self, ticket: Ticket, seconds: float) -> Reply:
        """Return the response to a ticket that has ended; count and log the request."""
        try:
            for index, document in ticket.weighing or ():
                _put_weights(ticket, index, heaviest(document))
            reply = self.with_headers(ticket, reply_of(ticket))
        except Exception:
            log.exception("no response could be made")
            reply = problem(MAYBE_WRITTEN, ticket.request_id)
        if reply.status >= _NOT_ALL_WELL:
            self.request_log.ended(ticket, reply.status)
        self.count(ROUTE, reply.status, seconds, ticket.request_id, ticket.trace)
        return reply

    def with_headers(self, ticket: Ticket, reply: Reply) -> Reply:
        """Return the reply with headers about the Idempotency-Key and the producer's quotas."""
        if ticket.attempt is not None:
            reply = marked(ticket.attempt, ticket.outcomes, reply)
        if ticket.producer not in self._quotas.policies or reply.status == _EXCEEDED:
            return reply  # a reply to an exceeded quota already contains it
        return reply.with_headers(self._quotas.fields(ticket.producer))

    def reply_to_refused(
        self,
        failure: Failure,
        topic: str,
        producer: str,
        request_id: str,
        seconds: float,
        trace: Trace | None,
        remote: str | None,
    ) -> Reply:
        """Return the response to a request that ended before the pipeline; count and log it."""
        reply = problem(failure, request_id)
        fields = {"producer": producer, "topic": topic, "remote": remote}
        self.request_log.refused(failure, request_id, trace, **fields)
        self.count(ROUTE, reply.status, seconds, request_id, trace)
        return reply

    def count(
        self, route: str, status: int, seconds: float, request_id: str, trace: Trace | None
    ) -> None:
        """Count an answered request; a sampled one is an exemplar."""
        self._meter.request(route, status, seconds)
        if trace is not None:
            trace.route, trace.request_id = route, request_id
            self._meter.exemplar(route, status, seconds, trace.trace_id)

    def _count(self, producer: str, topic: str, failure: Failure, request_id: str) -> None:
        """Count a request that ended before the pipeline as one rejected event."""
        self._meter.account(producer, topic, [rejected(failure)], [0], request_id)
        self.pipeline.report_refused(producer, topic, failure)


def _settle(future: "asyncio.Future[Ticket]", ticket: Ticket) -> None:
    if not future.done():  # else the waiting task was cancelled
        future.set_result(ticket)


def _put_weights(ticket: Ticket, index: int, weights: Sequence[Weight]) -> None:
    """Add the largest paths of an oversized event to its failure."""
    outcome = ticket.outcomes[index]
    if outcome is None or outcome.failure is None:
        return
    paths = [weight._asdict() for weight in weights]
    figures = {**(outcome.failure.figures or {}), "largest_paths": paths}
    ticket.outcomes[index] = outcome.with_failure(outcome.failure._replace(figures=figures))
