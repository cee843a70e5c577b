"""Requests to the management pages: their client and its roles, their bodies, and their changes.

With one port for data and management, a worker forwards requests over a Unix socket and names the
client in headers. It drops headers with their prefix that the client sent. The parent trusts these
headers only with the secret that it made at its start, and only if each of them is there once.
"""

import asyncio
import hmac
import json
import logging
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson
from aiohttp import web
from aiohttp.typedefs import Middleware

from headgate.admin.instance import Instance
from headgate.admin.views import iso
from headgate.http.auth import Authenticator, Certificate, Identity, Peer, peer_of
from headgate.http.body import read_body
from headgate.http.request_log import REPORTED
from headgate.ingest.admission import Admission
from headgate.model.content import is_form, is_json
from headgate.model.installation import Kind, NewEntry
from headgate.model.outcome import Failure, Reason, Refused, TooMuch, brief, malformed
from headgate.model.route import body_too_large

log = logging.getLogger("headgate.changes")

_PREFIX: Final = "x-headgate-"  # of headers between Headgate's processes, not of clients
_SECRET: Final = "X-Headgate-Secret"
_ADDRESS: Final = "X-Headgate-Remote"
_CERTIFICATE: Final = "X-Headgate-Certificate"

_PEER: Final = web.RequestKey("peer", Peer)

_Page = Callable[[web.Request], Awaitable[web.StreamResponse]]


def handed_on(peer: Peer, headers: Iterable[tuple[str, str]], secret: str) -> list[tuple[str, str]]:
    """Return a request's headers as a worker sends them to the parent.

    Args:
        peer: The client, whose address and certificate are added.
        headers: The client's headers.
        secret: Secret of the parent.
    """
    passed_on = [
        (name, value)
        for name, value in headers
        if not name.lower().replace("_", "-").startswith(_PREFIX)
    ]
    passed_on += [(_SECRET, secret), (_ADDRESS, peer.address or "unknown")]
    if peer.certificate is not None:
        passed_on.append(
            (_CERTIFICATE, json.dumps(peer.certificate))
        )  # ASCII, as headers have to be
    return passed_on


def workers_only(secret: str) -> Middleware:
    """Return middleware for the Unix socket: it refuses other senders, and notes each client."""

    @web.middleware
    async def checked(request: web.Request, handler: _Page) -> web.StreamResponse:
        connection = request.transport.get_extra_info("socket") if request.transport else None
        if connection is not None and connection.family == socket.AF_UNIX:
            request[_PEER] = _peer_of_worker(request, secret)
        return await handler(request)

    return checked


def asking(request: web.Request) -> Peer:
    """Return the client of a request to the management pages."""
    noted: Peer | None = request.get(_PEER)
    if noted is not None:
        return noted
    peer = peer_of(request)
    return peer._replace(address=peer.address or "unknown")


def _peer_of_worker(request: web.Request, secret: str) -> Peer:
    shown = _only(request, _SECRET)
    if shown is None or not hmac.compare_digest(
        shown.encode(errors="surrogateescape"), secret.encode()
    ):
        raise Refused(Failure(Reason.FORBIDDEN, "this socket is for the gateway's workers"))
    certificate = _only(request, _CERTIFICATE)
    address = _only(request, _ADDRESS) or "unknown"
    return Peer(address, None if certificate is None else _read(certificate))


def _only(request: web.Request, name: str) -> str | None:
    """Return the header's value, or None.

    Raises:
        Refused: The header is there several times.
    """
    values = request.headers.getall(name, [])
    if len(values) > 1:
        raise Refused(malformed(f"{name} is given {len(values)} times; give it once"))
    return values[0] if values else None


def _read(shown: str) -> Certificate:
    try:
        names, until = json.loads(shown)
        return Certificate(tuple((str(kind), str(name)) for kind, name in names), float(until))
    except (ValueError, TypeError):
        raise Refused(malformed(f"{_CERTIFICATE} cannot be read")) from None


# ---- roles, bodies (JSON and the console's forms, with a size limit and the data port's timeout),
# and the change log


_MAX_BYTES = 1_048_576
_MAX_TOGETHER = 64 * _MAX_BYTES  # of all bodies in memory; separate from the data port's budget
_MAX_FIELDS = 100  # of a form; the largest one has 16

_CHANGES_KEPT = 200
# Changes that the installation log takes one by one in so many seconds.
_NOTES = 20
_NOTE_S = 60.0
_SUBJECTS = ("group", "topic", "replay", "snapshot")

Form = Mapping[str, str]


class Access:
    """Access to the management pages: callers, request bodies and the log of changes.

    Pages identify the caller before they read a body.

    Args:
        instance: The instance.
        authenticator: Identifies callers.
        note: Takes entries of the installation log.

    Attributes:
        authenticator: Identifies callers; replaced at a reload.
        changes: The latest changes since the start, oldest first.
    """

    def __init__(
        self, instance: Instance, authenticator: Authenticator, note: Callable[[NewEntry], None]
    ) -> None:
        self._note = note
        self._noted = 0  # changes of this minute
        self.authenticator = authenticator
        self.changes: deque[dict[str, Any]] = deque(maxlen=_CHANGES_KEPT)
        self._instance = instance
        self._timeout_s = instance.settings.http.body_timeout_ms / 1000
        self._budget = Admission(_MAX_TOGETHER, 0).of("")

    def identify(self, request: web.Request, *roles: str) -> Identity:
        """Return the caller, if it has one of the roles.

        Raises:
            Refused: The authentication failed, or the caller has none of the roles.
        """
        headers = {name.lower(): value for name, value in request.raw_headers}
        client, reported = asking(request), request.setdefault(REPORTED, {})
        reported["remote"] = client.address or ""  # with one port, the client of the worker
        caller = self.authenticator.identify(headers, client)
        if isinstance(caller, Failure):
            raise Refused(caller)
        reported["producer"] = caller.name
        if caller.roles.isdisjoint(roles):
            detail = f"this needs the role {' or '.join(map(repr, roles))}"
            if self._instance.settings.auth.is_open:
                detail += '; with auth.mode = "none" changes are allowed from loopback only'
            raise Refused(Failure(Reason.FORBIDDEN, detail))
        return caller

    def for_viewers(self, page: _Page) -> _Page:
        """Return the page for callers with the role `view` only."""

        async def checked(request: web.Request) -> web.StreamResponse:
            self.identify(request, "view")
            return await page(request)

        return checked

    def changed(
        self, request: web.Request, caller: Identity, what: str, fields: dict[str, Any]
    ) -> None:
        """Record a change in the change log.

        Args:
            request: Request that made the change.
            caller: Caller of the request.
            what: Kind of the change.
            fields: Details of the change.
        """
        remote = asking(request).address or "unix socket"
        change = {"at": iso(time.time()), "who": caller.name, "remote": remote, "what": what}
        self.changes.append(change | fields)
        extra = {"producer": caller.name, "remote": remote, **fields}
        log.info("change: %s by %s", what, caller.name, extra=extra)
        self._note_change(caller.name, remote, what, fields)

    def _note_change(self, who: str, remote: str, what: str, fields: dict[str, Any]) -> None:
        """Add the change to the installation log, which is bounded: a script must not flush it."""
        self._noted += 1
        if self._noted == 1:
            asyncio.get_running_loop().call_later(_NOTE_S, self._note_more)
        if self._noted > _NOTES:
            return
        subject = next((str(fields[name]) for name in _SUBJECTS if name in fields), what)
        named = ", ".join(f"{name} {text}" for name, text in fields.items() if text is not None)
        text = f"{what} by {who} ({remote}): {named}"
        details = {"who": who, "remote": remote, "what": what, **fields}
        self._note(NewEntry(Kind.CHANGED, subject, text, details))

    def _note_more(self) -> None:
        more, self._noted = self._noted - _NOTES, 0
        if more > 0:
            text = f"{more} more changes within a minute: headgate.changes has them"
            self._note(NewEntry(Kind.CHANGED, "changes", text, {"left_out": more}))

    async def json(self, request: web.Request) -> Any:
        """Return the JSON document of a body.

        Raises:
            Refused: The body is no JSON, or the gateway could not encode it again.
        """
        given = request.headers.get("Content-Type", "")
        if not is_json(given):  # browsers send some other types for any page without a preflight
            detail = f"send it with Content-Type: application/json, not {brief(given or 'none')}"
            raise Refused(malformed(detail))
        return _document(await self._read(request))

    async def form(self, request: web.Request) -> Form:
        """Return the fields of a browser's form; of equal names, the first.

        Raises:
            Refused: The body is no form.
        """
        given = request.headers.get("Content-Type", "")
        if request.can_read_body and not is_form(given):
            detail = (
                "a form is sent with Content-Type: application/x-www-form-urlencoded, not "
                f"{brief(given or 'none')}"
            )
            raise Refused(Failure(Reason.UNSUPPORTED_ENCODING, detail))
        return _fields(await self._read(request))

    async def _read(self, request: web.Request) -> bytes:
        try:
            encoding = request.headers.get("Content-Encoding", "").encode("latin-1", "replace")
            raw = await read_body(request, encoding, _MAX_BYTES, self._timeout_s, self._budget)
        except TooMuch as much:
            raise Refused(body_too_large(_MAX_BYTES)) from much
        self._budget.give(len(raw), 0)  # the caller parses it in this turn of the event loop
        return raw


class EventStreams:
    """Streams of server-sent events.

    Args:
        limit: Most streams that are open at a time.
        busy: Failure of a request beyond the limit.
    """

    def __init__(self, limit: int, busy: Failure) -> None:
        self._limit = limit
        self._busy = busy
        self._open = 0

    async def respond(
        self,
        request: web.Request,
        headers: Mapping[str, str],
        write: Callable[[web.StreamResponse], Awaitable[None]],
    ) -> web.StreamResponse:
        """Respond with the events that `write` writes; it returns at the end of the stream."""
        if self._open >= self._limit:
            raise Refused(self._busy)
        answer = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream"})
        self._open += 1
        try:
            await answer.prepare(request)
            if request.method != "HEAD":
                await write(answer)
        except ConnectionResetError:
            pass  # the reader left
        finally:
            self._open -= 1
        return answer


def _fields(raw: bytes) -> Form:
    try:
        pairs = parse_qsl(
            raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except ValueError as error:
        raise Refused(malformed("the form has too many fields, or is no UTF-8")) from error
    return dict(reversed(pairs))


def _document(raw: bytes) -> Any:
    try:
        document = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(malformed(f"the body is not JSON: {_what_is_wrong(error)}")) from error
    try:
        orjson.dumps([{"": document}])  # as deep as in a list of a response
    except TypeError as error:
        detail = "the body cannot be kept: it nests too deep, or has a number beyond 64 bits"
        raise Refused(malformed(detail)) from error
    return document


def _what_is_wrong(error: Exception) -> str:
    """Return the cause of a parse error, without the library's internals."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    if isinstance(error, UnicodeDecodeError):
        return f"invalid UTF-8 at byte {error.start}"
    if isinstance(error, RecursionError):
        return "it nests too deep"
    return "a number that is too long, NaN or Infinity"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
