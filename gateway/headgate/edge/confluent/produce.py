"""POST /topics/{topic} and /topics/{topic}/partitions/{partition}: Confluent's REST v2."""

from functools import partial

from aiohttp import web

from headgate.core.event import Decoded
from headgate.core.formats import confluent_v2
from headgate.core.formats.confluent import codes_of, error, failed
from headgate.core.formats.confluent_v2 import TYPE, Format
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import SHOWN, Refused, brief
from headgate.core.reply import Reply
from headgate.core.topics.route import Route
from headgate.edge.confluent.service import ProduceService, ServiceRequest
from headgate.pipeline.inbound import Inbound

_PATH = "/topics/{topic}"
_PATH_OF_PARTITION = "/topics/{topic}/partitions/{partition}"
_DIGITS = 10


class ProduceEndpoint:
    """max_events: http.batch_max_events."""

    def __init__(self, service: ProduceService, max_events: int) -> None:
        self._service = service
        self._events = service.events
        self._max_events = max_events

    async def post(
        self, request: web.BaseRequest, topic: str, partition: str | None = None
    ) -> web.StreamResponse:
        """Answer once every record of the request has ended."""
        path = _PATH if partition is None else _PATH_OF_PARTITION
        return await self._service.answer(
            request, path, TYPE, partial(self._post, topic, partition)
        )

    async def _post(self, topic: str, partition: str | None, call: ServiceRequest) -> Reply:
        events = self._events
        caller = self._service.producer(call, topic)
        producer = caller.name
        form = _format(call.headers.get(b"content-type", b""))
        if isinstance(form, Reply):
            return self._service.refuse(call, Reason.UNSUPPORTED_ENCODING, form)
        self._service.policy(topic, caller)
        number = None if partition is None else _number(topic, partition)
        body = await events.body(call.request, call.headers, producer, topic, call.request_id)
        inbound = Inbound(topic, producer, call.headers, body, call.request_id, events.now())
        endpoint = f"v2/{'' if number is None else number}".encode()
        ticket = await events.start(inbound, partial(self._decode, form, number), endpoint)
        if not ticket.done:
            await events.ended(ticket)
        outcomes = ticket.answered()
        failure = outcomes[0].failure if outcomes else None
        status = 200 if ticket.is_batch or failure is None else codes_of(failure)[0]
        events.request_log.ended(ticket, status)
        if ticket.is_batch and outcomes:
            return await events.remembered(ticket, confluent_v2.produced(outcomes))
        assert failure is not None, "a request has a record, or was refused"
        return failed(failure, TYPE)

    def _decode(
        self, form: Format, partition: int | None, inbound: Inbound, route: Route
    ) -> Decoded:
        records = confluent_v2.read_records(
            inbound.body,
            form,
            route.policy.compat_json_keys,
            partition,
            self._max_events,
            route.key_max_bytes,
        )
        return Decoded([*records], True)


def _format(content_type: bytes) -> Format | Reply:
    form = confluent_v2.format_of(content_type)
    if form is not None:
        return form
    named = content_type.decode("latin-1")
    why = ""
    if any(name in named.lower() for name in ("avro", "protobuf", "jsonschema")):
        why = "; formats with schemas need a schema registry, which this gateway has not"
    taken = ", ".join(one.value for one in Format)
    text = f"Content-Type {named[:SHOWN] or 'none'}: use one of {taken}{why}"
    return error(415, 415, text, TYPE)


def _number(topic: str, partition: str) -> int:
    if partition.isascii() and partition.isdigit() and len(partition) <= _DIGITS:
        return int(partition)
    detail = f"topic {brief(topic)} has no partition {brief(partition)}"
    raise Refused(Failure(Reason.UNKNOWN_PARTITION, detail))
