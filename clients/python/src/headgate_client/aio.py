"""The client for asyncio."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Unpack

import httpx

from headgate_client.core.answer import Answer, Refused
from headgate_client.core.delivery import Delivery, Post
from headgate_client.errors import ClosedError
from headgate_client.hooks import tell_ended
from headgate_client.outcomes import Outcome
from headgate_client.wire import IDLE_S, ClientOptions, Wire, all_ended


class AsyncClient:
    """Sends events and returns how each ended, when it has.

        async with AsyncClient("http://127.0.0.1:8080", producer="shop") as client:
            (await client.send("orders", {"order_id": 1})).raise_for_outcome()

    url: of the gateway, or of several: another one is asked when one is away or drains.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self.wire = Wire(url, options)
        self._http = httpx.AsyncClient(
            verify=self.wire.tls,
            timeout=self.wire.timeout,
            transport=transport,
            limits=httpx.Limits(max_connections=None, keepalive_expiry=IDLE_S),
        )

    async def send(
        self,
        topic: str,
        event: object,
        *,
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Send one event: a JSON value, an `Event` or a `CloudEvent`.

        idempotency_key: yours, where the same request may come from elsewhere, too; there is one
        without it.  headers: of this request, as `Headgate-Force`.
        """
        delivery = self.wire.delivery(topic, [event], idempotency_key, is_batch=False)
        return (await self._deliver(delivery, headers))[0]

    async def send_batch(
        self,
        topic: str,
        events: Iterable[object],
        *,
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> list[Outcome]:
        """Send events; return an outcome for each, in their order. Many are sent in parts.

        idempotency_key: see `send`; all events are then in one request.
        """
        delivery = self.wire.delivery(topic, events, idempotency_key, is_batch=True)
        return await self._deliver(delivery, headers)

    async def post(self, post: Post, extra: Mapping[str, str] | None = None) -> Answer:
        """Make one request of a delivery."""
        began_s = time.monotonic()
        request = self.wire.request(post, extra)
        if isinstance(request, Refused):
            return self.wire.refused(post, request, began_s)
        try:
            response = await self._http.post(
                request.url, content=request.content, headers=request.headers
            )
            return self.wire.answer(post, request, response, began_s)
        except Exception as error:  # whatever it is, it says whether the request may have arrived
            return self.wire.failure(post, request, error, began_s)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _deliver(
        self, delivery: Delivery, headers: Mapping[str, str] | None
    ) -> list[Outcome]:
        if self._http.is_closed:
            raise ClosedError("the client is closed")
        wait_s: float | None = 0.0 if delivery.parts else None
        while wait_s is not None:
            if wait_s:
                await asyncio.sleep(wait_s)
            answer = await self.post(delivery.post(), headers)
            wait_s = delivery.answered(answer, time.monotonic()).wait_s
        outcomes = all_ended(delivery.outcomes)
        tell_ended(self.wire.observer, delivery.topic, outcomes)
        return outcomes
