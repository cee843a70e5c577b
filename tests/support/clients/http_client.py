"""A small HTTP/1.1 client on a bare socket: it sends what a well-behaved client would not."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple

from headgate.devstack.ports import LOOPBACK
from support.clients.declared import check_declared

__all__ = [
    "JSON",
    "NDJSON",
    "Answer",
    "ClosedError",
    "Connection",
    "chunks",
    "events_path",
    "exchange",
    "post",
    "request_bytes",
]

DEADLINE_S = 60.0  # a green test does not wait for it
JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}


class Answer(NamedTuple):
    """One answer. headers: names in lower case, of a repeated one the last value."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class ClosedError(Exception):
    """The server closed the connection before a whole answer came."""


class Connection:
    """One connection to a local port; every wait ends after `deadline_s` seconds."""

    def __init__(self, port: int, deadline_s: float = DEADLINE_S) -> None:
        self._socket = socket.create_connection((LOOPBACK, port), timeout=deadline_s)
        self._unread = b""

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def give_up_after(self, seconds: float) -> None:
        """Wait no longer than this for anything, from now on."""
        self._socket.settimeout(seconds)

    def send(self, data: bytes) -> None:
        """Send these bytes as they are."""
        self._socket.sendall(data)

    def reset(self) -> None:
        """Drop the connection at once (RST), whatever is under way."""
        linger = (1).to_bytes(4, "little") + bytes(4)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._socket.close()

    def finish_sending(self) -> None:
        """Close this side only (FIN)."""
        self._socket.shutdown(socket.SHUT_WR)

    def answer(self, *, has_body: bool = True) -> Answer:
        """Read the next answer, interim ones (1xx) too. Raises ClosedError, TimeoutError.

        has_body: False for the answer to HEAD.
        """
        head = self._until(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        status = int(first.split(" ")[1])
        size = 0 if status < 200 or not has_body else int(headers.get("content-length", "0"))
        return Answer(status, headers, self._exactly(size))

    def is_closed(self) -> bool:
        """Wait until the server closes this connection; False if it sends something instead."""
        if self._unread:
            return False
        try:
            return self._socket.recv(1) == b""
        except ConnectionError:
            return True

    def silence(self, seconds: float) -> bool:
        """Tell whether the server says nothing for so long."""
        before = self._socket.gettimeout()
        self._socket.settimeout(seconds)
        try:
            self._unread += self._socket.recv(65536)
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(before)
        return False

    def drips(self, data: bytes) -> bool:
        """Send this after a second's silence; False once the server has closed."""
        try:
            open_still = self.silence(1) or self._unread != b""
            self.send(data)
        except ConnectionError:
            return False
        return open_still

    def _until(self, end: bytes) -> bytes:
        while end not in self._unread:
            self._receive()
        head, _, self._unread = self._unread.partition(end)
        return head

    def _exactly(self, size: int) -> bytes:
        while len(self._unread) < size:
            self._receive()
        body, self._unread = self._unread[:size], self._unread[size:]
        return body

    def _receive(self) -> None:
        try:
            data = self._socket.recv(65536)
        except ConnectionError as error:
            raise ClosedError(str(error)) from error
        if not data:
            raise ClosedError(f"closed after {self._unread[:200]!r}")
        self._unread += data


def events_path(topic: str) -> str:
    """Where events are posted to."""
    return f"/v1/topics/{topic}/events"


def request_bytes(
    method: str,
    path: str,
    headers: Mapping[str, str | bytes],
    body: bytes = b"",
    length: str | None = None,
) -> bytes:
    """A request, nothing escaped or checked. length: instead of the body's own; "" = none."""
    lines = [f"{method} {path} HTTP/1.1".encode("latin-1"), b"Host: gateway"]
    for name, value in headers.items():
        shown = value if isinstance(value, bytes) else value.encode()
        lines.append(name.encode("latin-1") + b": " + shown)
    if length is None:
        length = str(len(body))
    if length:
        lines.append(b"Content-Length: " + length.encode())
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunks(*parts: bytes) -> bytes:
    """A whole chunked body."""
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))


def exchange(
    port: int,
    method: str,
    path: str,
    headers: Mapping[str, str | bytes] | None = None,
    body: bytes = b"",
    deadline_s: float = DEADLINE_S,
) -> Answer:
    """One request on a connection of its own; its problem, if any, must be a declared one."""
    with Connection(port, deadline_s) as connection:
        connection.send(request_bytes(method, path, headers or {}, body))
        answer = connection.answer()
    check_declared(method, path, answer)
    return answer


def figure(port: int, name: str, headers: Mapping[str, str | bytes] | None = None) -> float | None:
    """A metric without labels; None: the worker that has it was too busy to say in time."""
    page = exchange(port, "GET", "/metrics", headers).body.decode()
    found = [line for line in page.splitlines() if line.startswith(f"{name} ")]
    return float(found[0].split()[1]) if found else None


def post(
    port: int,
    topic: str,
    body: bytes,
    headers: Mapping[str, str | bytes] = JSON,
    deadline_s: float = DEADLINE_S,
) -> Answer:
    """Post a body to a topic."""
    return exchange(port, "POST", events_path(topic), headers, body, deadline_s)
