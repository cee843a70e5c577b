"""What both clients share: their options, requests as HTTP has them, and answers read from it."""

import random
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypedDict

import httpx

from headgate_client.core import encode
from headgate_client.core.answer import Answer, Ended, Lost, Refused, read_answer
from headgate_client.core.compress import compressor
from headgate_client.core.delivery import Chances, Delivery, Post
from headgate_client.core.encode import Dumps, Part
from headgate_client.core.ids import uuid7
from headgate_client.errors import InvalidEventError
from headgate_client.hooks import Attempt, LogObserver, Observer, tell
from headgate_client.outcomes import Outcome
from headgate_client.settings import Compression, Limits, Retry

COMPRESSED_FROM_BYTES = 1024  # below, compressing saves nothing that counts
CONNECT_TIMEOUT_S = 5.0
IDLE_S = 30.0  # less than the 75 seconds after which the gateway closes an idle connection
_TOKEN_REFUSED = "unauthenticated"


class ClientOptions(TypedDict, total=False):
    """The options of `Client` and `AsyncClient`.

    producer: who you are where authentication is off.  token: a bearer token, or what returns the
    one of the moment.  headers: of every request.  retry, limits: see there.  idempotency: False
    sends no Idempotency-Keys.  event_ids: give an id to each event that has none; on topics with
    `dedupe_ttl_s` it is then written once, whatever request brings it.  compression: "gzip" or
    "zstd".  tls: a context with other authorities or a client's certificate.  timeout_s: for an
    answer; longer than `http.request_timeout_ms` of the gateway.  dumps: makes JSON of values.
    observer: hears of requests and outcomes; logs what fails unless given.  transport: of httpx;
    `headgate_client.testing` has one.
    """

    producer: str
    token: str | Callable[[], str]
    headers: Mapping[str, str]
    retry: Retry
    limits: Limits
    idempotency: bool
    event_ids: bool
    compression: Compression
    tls: ssl.SSLContext
    timeout_s: float
    dumps: Dumps
    observer: Observer


class Request(NamedTuple):
    """What goes to the network. address: which of the URLs this is."""

    address: int
    url: str
    headers: dict[str, str]
    content: bytes


class Wire:
    """Makes requests and reads answers for one client; it has no connections itself."""

    def __init__(self, url: str | Sequence[str], options: ClientOptions) -> None:
        self.retry = options.get("retry", Retry())
        self.limits = options.get("limits", Limits())
        self.observer = options.get("observer") or LogObserver()
        self.timeout = httpx.Timeout(options.get("timeout_s", 45.0), connect=CONNECT_TIMEOUT_S)
        self.tls = options.get("tls", True)
        new_key = uuid7 if options.get("idempotency", True) else None
        self.chances = Chances(random.random, new_key)
        self._urls = _urls(url)
        self._address = 0
        self._token = options.get("token")
        self._headers = {**options.get("headers", {})}
        if "producer" in options:
            self._headers["Headgate-Producer"] = options["producer"]
        self._compression = options.get("compression")
        self._compress = compressor(self._compression)
        self._dumps = options.get("dumps", encode.dumps)
        self._new_id = uuid7 if options.get("event_ids", False) else None

    def part(self, event: object) -> Part:
        """Write an event as a member of a batch."""
        return encode.encode_part(encode.as_event(event), self._dumps, self._new_id)

    def delivery(
        self, topic: str, events: Iterable[object], own_key: str | None, *, is_batch: bool
    ) -> Delivery:
        """Prepare events to be sent. Raises InvalidEventError, and then nothing was sent."""
        write = encode.encode_part if is_batch else encode.encode_alone
        parts = [write(encode.as_event(one), self._dumps, self._new_id) for one in events]
        if own_key is not None and len({part.form for part in parts}) > 1:
            raise InvalidEventError(
                "idempotency_key: CloudEvents and other events make two requests; send them apart"
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
        """Return the request to make, or why there is none."""
        headers = {**self._headers, **(extra or {}), **dict(post.headers)}
        if self._token is not None:
            try:
                headers["Authorization"] = f"Bearer {self._bearer()}"
            except Exception as error:  # the caller's code; what it raises ends no thread of ours
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
        """Read what came back."""
        answer = read_answer(
            post.topic, post.events, response.status_code, response.headers, response.content,
            time.time(),
        )  # fmt: skip
        answer = self._after(request, answer)
        request_id = response.headers.get("x-request-id")
        self._report(post, answer, began_s, response.status_code, request_id)
        return answer

    def refused(self, post: Post, refused: Refused, began_s: float) -> Answer:
        """Report that there was no request."""
        self._report(post, refused, began_s, None, None)
        return refused

    def failure(self, post: Post, request: Request, error: Exception, began_s: float) -> Answer:
        """Say what it means that there is no answer."""
        answer = self._after(request, classify(error))
        self._report(post, answer, began_s, None, None)
        return answer

    def _bearer(self) -> str:
        return self._token() if callable(self._token) else str(self._token)

    def _after(self, request: Request, answer: Answer) -> Answer:
        """Go to another address, and take a new token, where that helps."""
        is_elsewhere = isinstance(answer, Lost) or (
            isinstance(answer, Refused) and answer.reason == "draining"
        )
        if is_elsewhere and len(self._urls) > 1:
            if self._address == request.address:
                self._address = (request.address + 1) % len(self._urls)
            return replace(answer, retry_after_s=0.0)
        if (
            isinstance(answer, Refused)
            and answer.reason == _TOKEN_REFUSED
            and callable(self._token)
        ):
            is_new = request.headers["Authorization"] != f"Bearer {self._bearer()}"
            return replace(answer, retryable=is_new)
        return answer

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
        tell(self.observer, attempt)


def classify(error: Exception) -> Answer:
    """Say what an error of httpx means for the request."""
    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)):
        if _is_of_certificates(error):
            return Refused("unreachable", detail, retryable=False, status=None)
        return Lost(detail, was_sent=False)
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError)):
        return Refused("not_sent", detail, retryable=False, status=None)
    return Lost(detail)


def _is_of_certificates(error: BaseException | None) -> bool:
    """Whether the other side is not who it should be, which waiting does not mend."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _urls(url: str | Sequence[str]) -> list[str]:
    urls = [url] if isinstance(url, str) else list(url)
    if not urls:
        raise InvalidEventError("url: none is given")
    for one in urls:
        if httpx.URL(one).scheme not in ("http", "https"):
            raise InvalidEventError(f"url: {one!r} does not begin with http:// or https://")
    return [one.rstrip("/") for one in urls]


def all_ended(outcomes: Sequence[Outcome | None]) -> list[Outcome]:
    """Return the outcomes, which are all there."""
    ended = [one for one in outcomes if one is not None]
    assert len(ended) == len(outcomes)
    return ended
