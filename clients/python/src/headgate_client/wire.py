"""HTTP requests and responses of both clients, and the options that they share."""

import random
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias, TypedDict

import httpx

from headgate_client.core import encode
from headgate_client.core.answer import Answer, Ended, Lost, Refused, read_answer
from headgate_client.core.delivery import Chances, Delivery, Post
from headgate_client.core.encode import Dumps, Part, compressor
from headgate_client.core.header_text import (
    Hide,
    checked_headers,
    checked_key,
    checked_producer,
    checked_token,
    hide,
)
from headgate_client.core.ids import uuid7
from headgate_client.errors import InvalidEventError, InvalidOptionError
from headgate_client.hooks import Attempt, AttemptReports, Observer, log
from headgate_client.outcomes import Outcome
from headgate_client.settings import (
    Compression,
    Limits,
    Retry,
    check_bool,
    check_function,
    check_number,
    check_type,
    refuse_unknown,
)
from headgate_client.version import __version__

COMPRESSED_FROM_BYTES = 1024  # smaller bodies gain too little
CONNECT_TIMEOUT_S = 5.0
IDLE_S = 30.0  # less than the 75 seconds after which the gateway closes an idle connection
_USER_AGENT = f"headgate-client-python/{__version__}"
_TOKEN_REFUSED = "unauthenticated"
_NO_GATEWAY = ("no_answer", "unreachable", "bad_answer", "not_sent")
# TLS handshakes that fail again however often they are tried (names of OpenSSL's reasons).
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
_HANDSHAKE_REFUSED = (
    "ALERT_HANDSHAKE_FAILURE", "ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL",
    "NO_PROTOCOLS_AVAILABLE", "CERTIFICATE", "ALERT_UNKNOWN_CA", "ALERT_ACCESS_DENIED",
    "UNRECOGNIZED_NAME",
)  # fmt: skip
_URL_FIX = "url: give the URL of a gateway, such as http://127.0.0.1:8080"
_LARGEST_PORT = 65_535
_USER = re.compile("//[^/@]*@")
# Mistakes in a program, such as its own transport. Another attempt fails in the same way.
_MISTAKES = (TypeError, AttributeError, NameError, NotImplementedError, ImportError)
# The same of a transport. A token function may raise ValueError for a response of its issuer, which
# passes; a fault of the network comes as an exception of httpx, or as an OSError.
_ERRORS_OF_PROGRAMS = (
    *_MISTAKES, ValueError, LookupError, ArithmeticError, AssertionError, RuntimeError
)  # fmt: skip
_NO_MISTAKES = (OSError, httpx.StreamError)  # some are a ValueError or RuntimeError, too
CLOSED = Refused("not_sent", "the client was closed", retryable=False, status=None)
_NOT_LISTENING = "check that the gateway runs, and that this is its data port"
_LONGEST_TIMEOUT_S = 3600.0
_TLS_FIX = "ssl.create_default_context(...)"
FAKE_URL = "http://headgate.test"  # of the gateway in memory
_FAKE_FIX = "this is the URL of a FakeGateway: give the client transport=gateway.transport"
_HOST_FIX = "check the host name, and that this machine or container resolves it"
_UNKNOWN_HOST = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


class UrlObject(Protocol):
    """A URL of httpx, yarl or another library. `urllib.parse.urlsplit` is accepted as well."""

    @property
    def scheme(self) -> str:
        """Return `http` or `https`."""


Url: TypeAlias = str | UrlObject


class ClientOptions(TypedDict, total=False):
    """Options of `Client` and `AsyncClient`.

    Keys:
        producer: Producer name of 1 to 100 characters, for gateways without authentication.
        token: Bearer token, or a function that returns the current one.
        request_headers: HTTP headers of every request. Those that the client sets itself are
            refused.
        retry: Retries and their time limit.
        limits: Size of one request.
        idempotency: False sends no Idempotency-Key. A retry may then write an event twice.
        event_ids: Give each event without an id a new one. A topic with `dedupe_ttl_s` then writes
            each event once, also if it arrives in several requests.
        compression: Compression of request bodies: "gzip" or "zstd".
        tls: Context with your certificate authority or client certificate. The default trusts the
            authorities of the package certifi.
        timeout_s: Time limit for a response, in seconds. Keep it above the gateway's
            `http.request_timeout_ms`.
        dumps: Function that encodes values as JSON, such as `orjson.dumps`. The default writes no
            spaces and refuses NaN.
        observer: Receives requests and outcomes, for metrics.
    """

    producer: str
    token: str | Callable[[], str]
    request_headers: Mapping[str, str]
    retry: Retry
    limits: Limits
    idempotency: bool
    event_ids: bool
    compression: Compression
    tls: ssl.SSLContext
    timeout_s: float
    dumps: Dumps
    observer: Observer


OPTIONS = (*ClientOptions.__annotations__, "transport")
DEFAULTS: ClientOptions = {
    "retry": Retry(),
    "limits": Limits(),
    "idempotency": True,
    "event_ids": False,
    "timeout_s": 45.0,
}


class Request(NamedTuple):
    """An HTTP request.

    address: index of its URL among those of the client.  hide: removes its secrets from a text.
    """

    address: int
    url: str
    headers: httpx.Headers
    content: bytes
    hide: Hide


class Wire:
    """Builds the requests of one client and reads the responses. It owns no connections."""

    def __init__(self, owner: str, url: Url | Iterable[Url], options: ClientOptions) -> None:
        refuse_unknown(owner, options, OPTIONS)
        options = {**DEFAULTS, **options}
        self.retry, self.limits = options["retry"], options["limits"]
        check_type("retry", self.retry, Retry)
        check_type("limits", self.limits, Limits)
        check_bool("idempotency", options["idempotency"])
        check_bool("event_ids", options["event_ids"])
        check_number("timeout_s", options["timeout_s"], 0.001, _LONGEST_TIMEOUT_S)
        self.observer = options.get("observer")
        if self.observer is not None:
            check_type("observer", self.observer, Observer, "an object of a subclass of Observer")
        self._reports = AttemptReports(self.observer)
        self.timeout = httpx.Timeout(options["timeout_s"], connect=CONNECT_TIMEOUT_S)
        self.tls = options.get("tls", True)
        if "tls" in options:
            check_type("tls", self.tls, ssl.SSLContext, _TLS_FIX)
        new_key = uuid7 if options["idempotency"] else None
        self.chances = Chances(random.random, new_key)
        self._urls = _urls(url)
        self._address = 0
        self._unusable: set[int] = set()  # addresses where waiting does not help
        self._token = options.get("token")
        if self._token is not None and not callable(self._token):
            self._token = checked_token(self._token)
        self._own_headers = checked_headers(
            options.get("request_headers", {}), has_token=self._token is not None
        )
        self._headers = httpx.Headers({"User-Agent": _USER_AGENT})
        self._headers.update(self._own_headers)
        if "producer" in options:
            self._headers["Headgate-Producer"] = checked_producer(options["producer"])
        self._compression = options.get("compression")
        self._compress = compressor(self._compression)
        self._dumps = options.get("dumps", encode.dumps)
        check_function("dumps", self._dumps, " such as orjson.dumps")
        self._new_id = uuid7 if options["event_ids"] else None
        self._has_warned = False  # of an event that looks like the record of another library

    def part(self, event: object) -> Part:
        """Encode an event as a member of a batch. Raises InvalidEventError."""
        return encode.encode_part(encode.as_event(event), self._dumps, self._new_id)

    def delivery(
        self,
        topic: str,
        events: Iterable[object],
        own_key: str | None,
        request_headers: Mapping[str, str] | None,
        *,
        is_batch: bool,
    ) -> Delivery:
        """Encode events for sending. Raises InvalidEventError; then nothing was sent."""
        checked_key(own_key)
        has_token = self._token is not None
        checked_headers(request_headers or {}, InvalidEventError, has_token=has_token)
        write = encode.encode_part if is_batch else encode.encode_alone
        parts = []
        for position, event in enumerate(encode.check_batch(events)):
            try:
                parts.append(write(encode.as_event(event), self._dumps, self._new_id))
            except InvalidEventError as error:
                where = f"events[{position}]: " if is_batch else ""
                raise InvalidEventError(f"{where}{error}") from error.__cause__
            if is_batch and not self._has_warned and encode.is_pair(event):
                self._has_warned = True
                log.warning(
                    "%s: events[%d] is a pair or has a member 'value', and is sent as it is; "
                    "for a record with a key use Event(value, key=...)",
                    topic,
                    position,
                )
        if own_key is not None and len({part.form for part in parts}) > 1:
            raise InvalidEventError(
                "idempotency_key: CloudEvents and other events need two requests; send them apart"
            )
        return Delivery(
            encode.check_topic(topic),
            parts,
            self.retry,
            self.limits,
            self.chances,
            time.monotonic() + self.retry.patience_s,
            own_key,
        )

    def request(self, post: Post, extra: Mapping[str, str] | None = None) -> Request | Refused:
        """Build the HTTP request of a post, or return the reason that prevents it."""
        headers = self._headers.copy()  # a later header replaces an earlier one, in any letters
        headers.update(extra or {})
        headers.update(dict(post.headers))
        token = None
        if self._token is not None:
            try:
                token = self._bearer()
            except InvalidOptionError as error:
                return Refused("not_sent", str(error), retryable=False, status=None)
            except Exception as error:  # the caller's code must not end the sender
                detail = f"token: the function raised {type(error).__name__}"
                is_retryable = not isinstance(error, (*_MISTAKES, LookupError))
                return Refused("not_sent", detail, is_retryable, status=None)
            headers["Authorization"] = f"Bearer {token}"
        hidden = (token or "", *self._own_headers.values(), *(extra or {}).values())
        content = post.content
        if self._compress is not None and len(content) >= COMPRESSED_FROM_BYTES:
            content = self._compress(content)
            headers["Content-Encoding"] = str(self._compression)
        address = self._address
        url = f"{self._urls[address]}/v1/topics/{post.topic}/events"
        return Request(address, url, headers, content, partial(hide, hidden))

    def answer(
        self, post: Post, request: Request, response: httpx.Response, began_s: float
    ) -> Answer:
        """Read the response to a post."""
        answer = read_answer(
            post.topic,
            post.events,
            response.status_code,
            response.headers,
            response.content,
            time.time(),
            request.hide,
        )
        answer = self._after(request, self._with_url(request, answer))
        request_id = response.headers.get("x-request-id")
        self._report(post, answer, began_s, response.status_code, request_id)
        return answer

    def refused(self, post: Post, refused: Refused, began_s: float) -> Answer:
        """Report a post that could not be built."""
        self._report(post, refused, began_s, None, None)
        return refused

    def failure(self, post: Post, request: Request, error: Exception, began_s: float) -> Answer:
        """Turn an exception of httpx into an answer."""
        answer = self._with_url(request, classify(error, request.hide))
        is_unresolved = any(isinstance(cause, socket.gaierror) for cause in _causes(error))
        if is_unresolved and self._urls[request.address] == FAKE_URL and isinstance(answer, Lost):
            why = answer.detail.rpartition("; ")[0]
            answer = replace(answer, detail=f"{why}; {_FAKE_FIX}")
        answer = self._after(request, answer)
        self._report(post, answer, began_s, None, None)
        return answer

    def _with_url(self, request: Request, answer: Answer) -> Answer:
        """Name the URL in the detail of an answer that no gateway gave."""
        if isinstance(answer, Ended) or answer.reason not in _NO_GATEWAY:
            return answer
        return replace(answer, detail=f"{self._urls[request.address]}: {answer.detail}")

    def _bearer(self) -> str:
        if not callable(self._token):
            return str(self._token)
        token = self._token()
        if isinstance(token, str):
            return checked_token(token)
        kind = "nothing" if token is None else type(token).__name__
        raise InvalidOptionError(f"token: the function returned {kind}; return the token as a str")

    def _after(self, request: Request, answer: Answer) -> Answer:
        """Choose another address or check for a new token, if that may help."""
        answer = self._after_unusable(request.address, answer)
        is_elsewhere = isinstance(answer, Lost) or (
            isinstance(answer, Refused) and answer.reason == "draining"
        )
        if is_elsewhere and len(self._urls) > 1:
            self._leave(request.address)
            return replace(answer, retry_after_s=0.0)
        if (
            isinstance(answer, Refused)
            and answer.reason == _TOKEN_REFUSED
            and callable(self._token)
        ):
            return replace(answer, retryable=self._is_new_token(request))
        return answer

    def _is_new_token(self, request: Request) -> bool:
        try:
            return request.headers["Authorization"] != f"Bearer {self._bearer()}"
        except Exception:  # the next request reports it
            return True

    def _after_unusable(self, address: int, answer: Answer) -> Answer:
        """Try the other addresses before an unreachable one is final."""
        if not isinstance(answer, Refused) or answer.reason != "unreachable":
            self._unusable.discard(address)
            return answer
        self._unusable.add(address)
        if len(self._unusable) == len(self._urls):
            return answer
        self._leave(address)
        return replace(answer, retryable=True)

    def _leave(self, address: int) -> None:
        if self._address == address:
            self._address = (address + 1) % len(self._urls)

    def _report(
        self,
        post: Post,
        answer: Answer,
        began_s: float,
        status: int | None,
        request_id: str | None,
    ) -> None:
        attempt = Attempt(
            topic=post.topic,
            events=post.events,
            content_bytes=len(post.content),
            number=post.attempt,
            duration_s=time.monotonic() - began_s,
            result="ended" if isinstance(answer, Ended) else answer.reason,
            detail="" if isinstance(answer, Ended) else answer.detail,
            status=status,
            request_id=request_id,
            is_bypassed=isinstance(answer, Ended) and answer.bypassed,
        )
        is_retryable = (
            not answer.is_final
            if isinstance(answer, Lost)
            else isinstance(answer, Refused) and answer.retryable
        )
        self._reports.report(attempt, is_retryable=is_retryable)


def classify(error: Exception, hide: Hide = str) -> Answer:
    """Return the meaning of an exception of httpx for the events of the request."""
    detail = hide(f"{type(error).__name__}: {error}")
    hint = _tls_hint(error)
    if hint is not None:
        return Refused("unreachable", f"{detail}; {hint}", retryable=False, status=None)
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)):
        is_unknown = any(
            isinstance(cause, socket.gaierror) and cause.errno in _UNKNOWN_HOST
            for cause in _causes(error)
        )
        if isinstance(error, httpx.ConnectError):
            detail += f"; {_HOST_FIX if is_unknown else _NOT_LISTENING}"
        return Lost(detail, False, "unreachable", is_unknown_host=is_unknown)
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError)):
        return Refused("not_sent", detail, retryable=False, status=None)
    if isinstance(error, _ERRORS_OF_PROGRAMS) and not isinstance(error, _NO_MISTAKES):
        detail += "; this is an error of the program or its transport, so it is not sent again"
        return Lost(detail, is_final=True)
    return Lost(detail)


def _tls_hint(error: BaseException) -> str | None:
    """Return the fix for a TLS handshake that fails again however often it is tried.

    The server has then read nothing: in TLS 1.3 it refuses a client's certificate only after the
    client has sent its first request, but before it reads that.
    """
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "give the client a tls= context that trusts the gateway's certificate authority"
        if isinstance(cause, ssl.SSLError):
            reason = getattr(cause, "reason", None) or ""  # only OpenSSL sets it
            if reason in _NO_TLS:
                return "this port does not speak TLS: use http://, or the port that has TLS"
            if any(name in reason for name in _HANDSHAKE_REFUSED):
                return "the gateway refused the TLS handshake: check tls= (client certificate)"
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those that it comes from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _urls(url: Url | Iterable[Url]) -> list[str]:
    text = _url_text(url)
    if text is not None:
        return [_checked_url(text)]
    if isinstance(url, Mapping):
        raise InvalidOptionError(
            f"{_URL_FIX}, not a dict of options: the gateway has the addresses of the brokers, and "
            "options are arguments, such as producer=..."
        )
    if not isinstance(url, Iterable) or isinstance(url, bytes) or not (urls := [*url]):
        raise InvalidOptionError(f"{_URL_FIX}, not {url!r}")
    texts = [(given, _url_text(given)) for given in urls]
    for given, text in texts:
        if text is None:
            raise InvalidOptionError(f"{_URL_FIX}, not {given!r}")
    return [_checked_url(text) for _, text in texts if text is not None]


def _url_text(url: object) -> str | None:
    """Return the text of a URL, or of a URL object of any library; None for another object."""
    if isinstance(url, str):
        return url.strip()
    if hasattr(url, "geturl"):  # urllib.parse
        return str(url.geturl())
    return str(url) if hasattr(url, "scheme") and hasattr(url, "host") else None


def _checked_url(text: str) -> str:
    """Return the URL without a slash at its end. Raises InvalidOptionError."""
    shown = _USER.sub("//***@", text)
    try:
        parsed = httpx.URL(text)
    except httpx.InvalidURL as error:
        why = "" if shown != text else f" ({error})"
        raise InvalidOptionError(f"url: {shown!r} is not a URL{why}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidOptionError(f"url: {shown!r} needs the form http://host:port (or https://)")
    if parsed.port is not None and not 0 < parsed.port <= _LARGEST_PORT:
        raise InvalidOptionError(f"url: {shown!r}: a port is a number from 1 to {_LARGEST_PORT}")
    if parsed.userinfo:
        raise InvalidOptionError(
            f"url: {shown!r}: leave out the user or password; use token= or request_headers="
        )
    extra = re.search(r"/v1/topics.*|[?#].*", text)
    if extra is not None:
        hint = ": the client adds it" if extra[0].startswith("/v1") else ""
        raise InvalidOptionError(f"url: {shown!r}: leave out {extra[0].rstrip('/')}{hint}")
    return text.rstrip("/")


def all_ended(outcomes: Sequence[Outcome | None]) -> list[Outcome]:
    """Return the outcomes, none of which may be missing."""
    ended = [outcome for outcome in outcomes if outcome is not None]
    assert len(ended) == len(outcomes)
    return ended
