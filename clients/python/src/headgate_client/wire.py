"""HTTP requests and responses of both clients, and the options that they share."""

import random
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypedDict

import httpx

from headgate_client.core import encode
from headgate_client.core.answer import Answer, Ended, Lost, Refused, read_answer
from headgate_client.core.compress import compressor
from headgate_client.core.delivery import Chances, Delivery, Post
from headgate_client.core.encode import Dumps, Part
from headgate_client.core.ids import uuid7
from headgate_client.errors import InvalidEventError, InvalidOptionError
from headgate_client.hooks import Attempt, Observer, report_attempt
from headgate_client.outcomes import Outcome
from headgate_client.settings import Compression, Limits, Retry, check_type, refuse_unknown

COMPRESSED_FROM_BYTES = 1024  # smaller bodies gain too little
CONNECT_TIMEOUT_S = 5.0
IDLE_S = 30.0  # less than the 75 seconds after which the gateway closes an idle connection
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_TOKEN_REFUSED = "unauthenticated"
# TLS handshakes that fail again however often they are tried (names of OpenSSL's reasons).
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
_HANDSHAKE_REFUSED = (
    "ALERT_HANDSHAKE_FAILURE", "ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL",
    "NO_PROTOCOLS_AVAILABLE", "CERTIFICATE", "ALERT_UNKNOWN_CA", "ALERT_ACCESS_DENIED",
    "UNRECOGNIZED_NAME",
)  # fmt: skip
_UNKNOWN_HOST = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


class ClientOptions(TypedDict, total=False):
    """Options of `Client` and `AsyncClient`.

    Keys:
        producer: Producer name, for gateways without authentication.
        token: Bearer token, or a function that returns the current one.
        request_headers: HTTP headers of every request.
        retry: Retries and their time limit.
        limits: Size of one request.
        idempotency: False sends no Idempotency-Key. A retry may then write an event twice.
        event_ids: Give each event without an id a new one. A topic with `dedupe_ttl_s` then writes
            each event once, also if it arrives in several requests.
        compression: "gzip" or "zstd".
        tls: Context with your certificate authority or client certificate.
        timeout_s: Time limit for a response, in seconds. Keep it above the gateway's
            `http.request_timeout_ms`.
        dumps: Function that encodes values as JSON, such as `orjson.dumps`.
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


class Request(NamedTuple):
    """An HTTP request. address: index of its URL among those of the client."""

    address: int
    url: str
    headers: dict[str, str]
    content: bytes


class Wire:
    """Builds the requests of one client and reads the responses. It owns no connections."""

    def __init__(self, owner: str, url: str | Sequence[str], options: ClientOptions) -> None:
        refuse_unknown(owner, options, OPTIONS)
        self.retry = options.get("retry", Retry())
        self.limits = options.get("limits", Limits())
        check_type("retry", self.retry, Retry)
        check_type("limits", self.limits, Limits)
        self.observer = options.get("observer")
        self.timeout = httpx.Timeout(options.get("timeout_s", 45.0), connect=CONNECT_TIMEOUT_S)
        self.tls = options.get("tls", True)
        new_key = uuid7 if options.get("idempotency", True) else None
        self.chances = Chances(random.random, new_key)
        self._urls = _urls(url)
        self._address = 0
        self._unusable: set[int] = set()  # addresses where waiting does not help
        self._token = options.get("token")
        if self._token is not None and not callable(self._token):
            self._token = checked_token(self._token)
        self._headers = {**options.get("request_headers", {})}
        if "producer" in options:
            self._headers["Headgate-Producer"] = options["producer"]
        self._compression = options.get("compression")
        self._compress = compressor(self._compression)
        self._dumps = options.get("dumps", encode.dumps)
        self._new_id = uuid7 if options.get("event_ids", False) else None

    def part(self, event: object) -> Part:
        """Encode an event as a member of a batch. Raises InvalidEventError."""
        return encode.encode_part(encode.as_event(event), self._dumps, self._new_id)

    def delivery(
        self, topic: str, events: Iterable[object], own_key: str | None, *, is_batch: bool
    ) -> Delivery:
        """Encode events for sending. Raises InvalidEventError; then nothing was sent."""
        write = encode.encode_part if is_batch else encode.encode_alone
        parts = [write(encode.as_event(one), self._dumps, self._new_id) for one in events]
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
        headers = {**self._headers, **(extra or {}), **dict(post.headers)}
        if self._token is not None:
            try:
                headers["Authorization"] = f"Bearer {self._bearer()}"
            except Exception as error:  # the caller's code must not end the sender
                return Refused("not_sent", f"token: {error!r}", retryable=True, status=None)
        content = post.content
        if self._compress is not None and len(content) >= COMPRESSED_FROM_BYTES:
            content = self._compress(content)
            headers["Content-Encoding"] = str(self._compression)
        address = self._address
        url = f"{self._urls[address]}/v1/topics/{post.topic}/events"
        return Request(address, url, headers, content)

    def answer(
        self, post: Post, request: Request, response: httpx.Response, began_s: float
    ) -> Answer:
        """Read the response to a post."""
        answer = read_answer(
            post.topic, post.events, response.status_code, response.headers, response.content,
            time.time(),
        )  # fmt: skip
        answer = self._after(request, answer)
        request_id = response.headers.get("x-request-id")
        self._report(post, answer, began_s, response.status_code, request_id)
        return answer

    def refused(self, post: Post, refused: Refused, began_s: float) -> Answer:
        """Report a post that could not be built."""
        self._report(post, refused, began_s, None, None)
        return refused

    def failure(self, post: Post, request: Request, error: Exception, began_s: float) -> Answer:
        """Turn an exception of httpx into an answer."""
        answer = classify(error)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and not isinstance(answer, Ended):
            answer = replace(answer, detail=answer.detail.replace(token, "***"))
        answer = self._after(request, answer)
        self._report(post, answer, began_s, None, None)
        return answer

    def _bearer(self) -> str:
        return checked_token(self._token()) if callable(self._token) else str(self._token)

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
            is_new = request.headers["Authorization"] != f"Bearer {self._bearer()}"
            return replace(answer, retryable=is_new)
        return answer

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
        is_retryable = isinstance(answer, Lost) or (
            isinstance(answer, Refused) and answer.retryable
        )
        report_attempt(self.observer, attempt, is_retryable=is_retryable)


def checked_token(token: object) -> str:
    """Return the token without blanks around it. The text of the error never repeats it."""
    text = token.strip() if isinstance(token, str) else ""
    if _HEADER_VALUE.fullmatch(text) is None:
        raise InvalidOptionError("token: use one line of visible ASCII characters, not empty")
    return text


def classify(error: Exception) -> Answer:
    """Return the meaning of an exception of httpx for the events of the request."""
    detail = f"{type(error).__name__}: {error}"
    hint = _tls_hint(error)
    if hint is not None:
        return Refused("unreachable", f"{detail}; {hint}", retryable=False, status=None)
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)):
        is_unknown = any(
            isinstance(one, socket.gaierror) and one.errno in _UNKNOWN_HOST
            for one in _causes(error)
        )
        return Lost(detail, was_sent=False, is_unknown_host=is_unknown)
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError)):
        return Refused("not_sent", detail, retryable=False, status=None)
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
            reason = cause.reason or ""
            if reason in _NO_TLS:
                return "this port does not speak TLS: use http://, or the port that has TLS"
            if any(one in reason for one in _HANDSHAKE_REFUSED):
                return "the gateway refused the TLS handshake: check tls= (client certificate)"
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those that it comes from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _urls(url: str | Sequence[str]) -> list[str]:
    urls = [url] if isinstance(url, str) else list(url)
    if not urls:
        raise InvalidOptionError("url: give the URL of a gateway, such as http://127.0.0.1:8080")
    for text in urls:
        try:
            parsed = httpx.URL(text)
        except (httpx.InvalidURL, TypeError) as error:
            raise InvalidOptionError(f"url: {text!r} is not a URL ({error})") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise InvalidOptionError(f"url: {text!r} needs the form http://host:port (or https://)")
    return [text.rstrip("/") for text in urls]


def all_ended(outcomes: Sequence[Outcome | None]) -> list[Outcome]:
    """Return the outcomes, none of which may be missing."""
    ended = [outcome for outcome in outcomes if outcome is not None]
    assert len(ended) == len(outcomes)
    return ended
