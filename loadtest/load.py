"""One load on one event loop: connections, who posts next, and who gave up waiting.

Closed loop: every connection posts the next request when its answer is there. Open loop: requests
are due on a fixed schedule, wait for a free connection if there is none, and their latency counts
from when they were due, so a stalled gateway cannot slow its own measurement.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterator

from plan import Plan
from tally import Tally
from wire import Answer, AnswerReader, Request, outcomes

SWEEP_S = 0.1
CONNECT_AT_ONCE = 32  # well under aiohttp's listen backlog of 128: a lost SYN would cost a second
CONNECT_RETRY_S = 0.05
TIMER_S = 0.001
BURST = 64  # due requests sent before answers are read again


class Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request under way."""

    __slots__ = ("_load", "_reader", "_transport", "due_s", "request", "sent_s")

    def __init__(self, load: "Load") -> None:
        self._load = load
        self._reader = AnswerReader()
        self._transport: asyncio.Transport | None = None
        self.request: Request | None = None
        self.due_s = self.sent_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # TCP gives a Transport

    def send(self, request: Request, due_s: float, now_s: float) -> None:
        self.request, self.due_s, self.sent_s = request, due_s, now_s
        if self._transport is not None:
            self._transport.write(request.data)

    def data_received(self, data: bytes) -> None:
        answer = self._reader.feed(data)
        if answer is not None:
            self._load.answered(self, answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.lost(self)

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Load:
    """Posts `requests` over `plan.connections` connections until stopped or exhausted.

    `pump` (connections) and `pace` (open loop) are coroutines the caller owns as tasks.
    """

    def __init__(self, plan: Plan, requests: Iterator[Request], tally: Tally) -> None:
        self.plan = plan
        self.tally = tally
        self.finished = asyncio.Event()  # posts nothing more, and nothing is under way
        self.unsent = 0
        self._requests = requests
        self._open_loop = plan.rate > 0
        self._connections: set[Connection] = set()
        self._idle: list[Connection] = []
        self._due: deque[float] = deque()
        self._running = self._closed = False

    # ---- what connections report

    def answered(self, connection: Connection, answer: Answer) -> None:
        request = connection.request
        if request is None:  # its timeout was counted a moment ago
            return
        self._end(connection, outcomes(answer, request.events), str(answer.status))
        if answer.keep_alive:
            self._free(connection)
        else:
            connection.drop()

    def lost(self, connection: Connection) -> None:
        if connection.request is not None:
            self._fail(connection, "reset")
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    # ---- what the run does

    def start(self) -> None:
        self._running = True
        if not self._open_loop:
            idle, self._idle = self._idle, []
            for connection in idle:
                self._free(connection)

    async def stop(self) -> None:
        """No new requests; waits for the answers under way, at most the client's timeout."""
        self._running = False
        self.unsent = len(self._due)
        self._due.clear()
        self._note_quiet()
        await self.finished.wait()  # `pump` ends the late ones, so this always comes
        self._closed = True
        for connection in list(self._connections):
            connection.drop()

    def _note_quiet(self) -> None:
        if not any(connection.request for connection in self._connections):
            self.finished.set()

    async def connect(self) -> None:
        """Opens what is missing. Raises OSError where nobody listens."""
        loop, address = asyncio.get_running_loop(), self.plan.address
        host, port = address.hostname or "127.0.0.1", address.port or 80
        while (missing := self.plan.connections - len(self._connections)) > 0:
            opening = [
                loop.create_connection(lambda: Connection(self), host, port)
                for _ in range(min(missing, CONNECT_AT_ONCE))
            ]
            for _, connection in await asyncio.gather(*opening):
                self._connections.add(connection)
                self._free(connection)

    async def pump(self) -> None:
        """Keeps the connections up and gives up on late answers, until the load is closed."""
        while not self._closed:
            await asyncio.sleep(SWEEP_S)
            late = time.monotonic() - self.plan.timeout_s
            for connection in list(self._connections):
                if connection.request is not None and connection.sent_s < late:
                    self._fail(connection, "timeout")
                    connection.drop()
            if self._running:
                try:
                    await self.connect()
                except OSError:
                    await asyncio.sleep(CONNECT_RETRY_S)  # the target is down: part of some runs

    async def pace(self) -> None:
        """Open loop: makes requests due at `plan.rate` a second, however the target does.

        Begins after `start`, ends with `stop`.
        """
        begin = time.monotonic()
        count = 0
        while self._open_loop and self._running:
            due = begin + count / self.plan.rate
            wait = due - time.monotonic()
            if wait > 0 or count % BURST == 0:
                # uvloop's timers count whole milliseconds: a shorter sleep would spin.
                await asyncio.sleep(max(wait, TIMER_S) if wait > 0 else 0)
            if self._running and time.monotonic() >= due:
                self._offer(due)
                count += 1

    # ---- who posts next

    def _offer(self, due_s: float) -> None:
        if self._idle:
            self._post(self._idle.pop(), due_s)
        else:
            self._due.append(due_s)

    def _free(self, connection: Connection) -> None:
        if self._running and not self._open_loop:
            self._post(connection, time.monotonic())
        elif self._running and self._due:
            self._post(connection, self._due.popleft())
        else:
            self._idle.append(connection)

    def _post(self, connection: Connection, due_s: float) -> None:
        request = next(self._requests, None)
        if request is None:
            self._running = False
            self._idle.append(connection)
            self._note_quiet()
            return
        now = time.monotonic()
        connection.send(request, due_s, now)
        self.tally.sent(due_s, now)

    def _end(self, connection: Connection, ends: Counter[str], status: str) -> None:
        connection.request = None
        self.tally.ended(ends, status, connection.due_s, time.monotonic())
        if not self._running:
            self._note_quiet()

    def _fail(self, connection: Connection, reason: str) -> None:
        if connection.request is not None:
            self._end(connection, Counter({reason: connection.request.events}), reason)
