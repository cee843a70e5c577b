"""Client for asyncio."""

import asyncio
import ssl
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Unpack

import httpx

from headgate_client.core.answer import Answer, Refused
from headgate_client.core.delivery import Delivery, Post
from headgate_client.core.encode import as_event
from headgate_client.errors import ClosedError
from headgate_client.habits import CLIENT_HABITS, name_habits
from headgate_client.hooks import report_outcomes
from headgate_client.outcomes import Outcome
from headgate_client.settings import check_type, explain_arguments
from headgate_client.wire import CLOSED, IDLE_S, ClientOptions, Url, Wire, all_ended

# A pool of httpx looks at all of its connections for each request, so that many at once take more
# processor time than all the rest of a request. Several small pools have no such cost.
_REQUESTS_OF_A_POOL = 8
_MOST_POOLS = 32


class _Pool:
    """A client of httpx with its connections, and the number of its requests under way."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.requests = 0


@name_habits(CLIENT_HABITS)
class AsyncClient:
    """Sends events and returns the outcome of each.

        async with AsyncClient("http://127.0.0.1:8080", producer="shop") as client:
            (await client.send("orders", {"order_id": 1})).raise_for_outcome()

    Args:
        url: URL of the gateway, as text or as an object of a URL library; or several URLs. If one
            gateway is unavailable or drains, the client uses the next one.
        transport: Transport of httpx, such as that of `headgate_client.testing`.
        options: See `ClientOptions`.

    Raises:
        InvalidOptionError: An option does not exist or has an invalid value.
    """

    @explain_arguments("producer=...")
    def __init__(
        self,
        url: Url | Iterable[Url],
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self.wire = Wire(type(self).__name__, url, options)
        if transport is not None:
            check_type(
                "transport", transport, httpx.AsyncBaseTransport, "an httpx.AsyncBaseTransport"
            )
        self._transport = transport
        given = self.wire.tls  # one context for all pools: it reads the system's certificates
        self._tls = given if isinstance(given, ssl.SSLContext) else httpx.create_ssl_context()
        self._pools = [self._open()]
        self._is_closed = False

    @explain_arguments("key=...")
    async def send(
        self,
        topic: str,
        value: object,
        *,
        key: str | bytes | None = None,
        id: str | None = None,
        headers: Mapping[str, str] | None = None,
        timestamp: int | datetime | None = None,
        idempotency_key: str | None = None,
        request_headers: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Send one event and return its outcome.

        Args:
            topic: Kafka topic.
            value: Anything that JSON has, `RawJson`, bytes or `TOMBSTONE`; or an `Event` or
                `CloudEvent`, which has its own key, id, headers and timestamp.
            key: Record key. It overrides the topic's key rule.
            id: Event id. A topic with `dedupe_ttl_s` writes each id once.
            headers: Record headers.
            timestamp: Milliseconds since 1970, or a `datetime` with a time zone.
            idempotency_key: Idempotency-Key of the request, if other programs may send the same
                request. The default is a new one.
            request_headers: HTTP headers of this request, such as `Headgate-Force`.

        Raises:
            InvalidEventError: An argument is invalid. Nothing was sent.
            ClosedError: The client is closed.
        """
        event = as_event(value, key, id, headers, timestamp)
        delivery = self.wire.delivery(
            topic, [event], idempotency_key, request_headers, is_batch=False
        )
        return (await self._deliver(delivery, request_headers))[0]

    @explain_arguments("request_headers=...")
    async def send_batch(
        self,
        topic: str,
        events: Iterable[object],
        *,
        idempotency_key: str | None = None,
        request_headers: Mapping[str, str] | None = None,
    ) -> list[Outcome]:
        """Send events and return an outcome for each, in their order.

        Many events are sent in several requests, unless there is an `idempotency_key`.

        Args:
            topic: Kafka topic.
            events: Values, `Event` or `CloudEvent` objects.
            idempotency_key: Idempotency-Key of the request; see `send`.
            request_headers: HTTP headers of each request.

        Raises:
            InvalidEventError: An event is invalid. Nothing was sent.
            ClosedError: The client is closed.
        """
        delivery = self.wire.delivery(
            topic, events, idempotency_key, request_headers, is_batch=True
        )
        return await self._deliver(delivery, request_headers)

    async def post(self, post: Post, extra: Mapping[str, str] | None = None) -> Answer:
        """Send one request. Every failure is an answer."""
        began_s = time.monotonic()
        if self._is_closed:
            return self.wire.refused(post, CLOSED, began_s)
        request = self.wire.request(post, extra)
        if isinstance(request, Refused):
            return self.wire.refused(post, request, began_s)
        pool = self._least_busy()
        pool.requests += 1
        try:
            response = await pool.http.post(
                request.url, content=request.content, headers=request.headers
            )
            return self.wire.answer(post, request, response, began_s)
        except Exception as error:  # each says whether the request may have arrived
            return self.wire.failure(post, request, error, began_s)
        finally:
            pool.requests -= 1

    async def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        for pool in self._pools:
            await pool.http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _least_busy(self) -> "_Pool":
        pool = min(self._pools, key=lambda each: each.requests)
        if pool.requests >= _REQUESTS_OF_A_POOL and len(self._pools) < _MOST_POOLS:
            pool = self._open()
            self._pools.append(pool)
        return pool

    def _open(self) -> "_Pool":
        http = httpx.AsyncClient(
            verify=self._tls,
            timeout=self.wire.timeout,
            transport=self._transport,
            limits=httpx.Limits(max_connections=None, keepalive_expiry=IDLE_S),
        )
        return _Pool(http)

    async def _deliver(
        self, delivery: Delivery, request_headers: Mapping[str, str] | None
    ) -> list[Outcome]:
        if self._is_closed:
            raise ClosedError("the client is closed")
        wait_s: float | None = 0.0 if delivery.parts else None
        while wait_s is not None:
            if wait_s:
                await asyncio.sleep(wait_s)
            answer = await self.post(delivery.post(), request_headers)
            wait_s = delivery.answered(answer, time.monotonic()).wait_s
        outcomes = all_ended(delivery.outcomes)
        report_outcomes(self.wire.observer, outcomes, is_batch=delivery.is_batch)
        return outcomes
