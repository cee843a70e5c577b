"""Records of one request that start together: one ticket, and a report for each of them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.core.event import Decoded, RawEvent
from headgate.core.formats.confluent import codes_of
from headgate.core.formats.confluent_v3 import Sent, failure_report, read_record, report
from headgate.core.formats.headers import HeaderCount
from headgate.core.formats.jsonslow import parse_slowly
from headgate.core.outcome import Failure
from headgate.core.refusal import Refused
from headgate.core.reply import advice_headers
from headgate.core.topics.route import Route
from headgate.edge.events import EventsFront
from headgate.pipeline.inbound import Inbound

SEPARATOR = b"\r\n"


class ProduceTarget(NamedTuple):
    """Where the records of a request go, and who sends them."""

    events: EventsFront
    topic: str
    producer: str
    headers: Mapping[bytes, bytes]
    request_id: str
    cluster_id: str


class Group:
    """Starts its records at once. body: their bytes, which were taken from the budget."""

    def __init__(self, target: ProduceTarget, texts: Sequence[bytes], body: bytes) -> None:
        self._target = target
        self._texts = texts
        self.is_broken = False  # one is no JSON at all: where the next begins cannot be told
        self._sent: list[Sent | None] = []
        events = target.events
        inbound = Inbound(
            target.topic, target.producer, target.headers, body, target.request_id, events.now()
        )
        self._ticket = events.pipeline.take(inbound, self._decode)
        self._done: asyncio.Future[None] | None = None
        if not self._ticket.done:
            self._done = events.ended(self._ticket)

    def _decode(self, _inbound: Inbound, route: Route) -> Decoded:
        """A record that is wrong fails alone."""
        found: list[bytes | RawEvent | Failure] = []
        rules, count = (route.policy.compat_json_keys, route.key_max_bytes), HeaderCount()
        for text in self._texts:
            try:
                event, sent = read_record(text, *rules, count)
            except Refused as refused:
                found.append(refused.failure)
                self._sent.append(None)
                self.is_broken = not _is_json(text)
                if self.is_broken:
                    break
            else:
                found.append(event)
                self._sent.append(sent)
        return Decoded(found, True)

    @property
    def refusal(self) -> Failure | None:
        """Why nothing of the group was started, if it was refused as a whole."""
        return None if self._ticket.is_batch else self._ticket.answered()[0].failure

    async def ended(self) -> None:
        """Wait until every record has ended; the deadline sees to that."""
        if self._done is not None:
            await self._done

    def lines(self) -> list[bytes]:
        """The reports, once all have ended."""
        self._target.events.request_log.ended(self._ticket, 200)
        refusal = self.refusal
        if refusal is not None:
            return [failure_line(refusal)] * len(self._texts)
        cluster_id, topic = self._target.cluster_id, self._target.topic
        return [
            report(cluster_id, topic, outcome, self._sent[index])
            for index, outcome in enumerate(self._ticket.answered())
        ]

    def status(self) -> int:
        """The HTTP status of a request with one record, which says it as its report does."""
        failure = self._ticket.answered()[0].failure
        return 200 if failure is None else codes_of(failure)[0]

    def advice(self) -> tuple[tuple[str, str], ...]:
        """Headers for the client's next try."""
        failures = [one.failure for one in self._ticket.answered() if one.failure is not None]
        return advice_headers(failures[0]) if failures else ()


def _is_json(text: bytes) -> bool:
    try:
        parse_slowly(text)
    except Refused:
        return False
    return True


def failure_line(failure: Failure) -> bytes:
    """The report of a record that was not published."""
    return failure_report(failure)
