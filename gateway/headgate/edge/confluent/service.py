"""Confluent's paths: what they share, the look-ups of topics and clusters, and producing with v2.

The way in is that of /v1: the same credentials, limits, budget, quotas, suppression and figures.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import orjson
from aiohttp import web

from headgate.core.event import Decoded
from headgate.core.formats import confluent_v2, confluent_v3
from headgate.core.formats.confluent import NOT_ON_THE_CLUSTER, codes_of, error, failed
from headgate.core.formats.confluent_v2 import TYPE, Format
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import SHOWN, Refused, brief
from headgate.core.reply import Reply, json_text
from headgate.core.topics.policy import INTERNAL_PREFIXES, TopicPolicy
from headgate.core.topics.route import Route
from headgate.core.topics.topic import PartitionState, TopicState
from headgate.edge.auth import Identity, peer_of
from headgate.edge.body import BREAKS
from headgate.edge.events import EventsFront
from headgate.edge.problems import response
from headgate.edge.request_log import REPORTED
from headgate.pipeline.pipeline import Inbound

log = logging.getLogger("headgate.edge.confluent.desk")

_PREFIXES = ("/topics", "/consumers", "/brokers", "/v3")


class KnownTopics(Protocol):
    """What Kafka says of topics and clusters (`backends.kafka.topics`)."""

    def states(self) -> Sequence[TopicState]:
        """The topics that a policy matches, by name."""
        ...

    def cluster_ids(self) -> Mapping[str, str]:
        """Kafka's ids of the clusters, by our names, as far as they have answered."""
        ...

    async def partitions(self, topic: str) -> Sequence[PartitionState]:
        """The topic's partitions. Raises Refused."""
        ...


class ServiceRequest(NamedTuple):
    """A request with its headers in lower case, its id, and when it came (monotonic seconds).

    reported: the request id and, once it is known, the producer, for the log.
    """

    request: web.BaseRequest
    headers: Mapping[bytes, bytes]
    request_id: str
    arrived: float
    reported: dict[str, str]


Work = Callable[[ServiceRequest], Awaitable[Reply | web.StreamResponse]]


class ProduceService:
    """Where requests arrive: `answer` does the work and says in Confluent's words why not."""

    def __init__(self, events: EventsFront, topics: KnownTopics) -> None:
        self.events = events
        self.topics = topics
        self._loop = asyncio.get_running_loop()

    async def answer(
        self, request: web.BaseRequest, path: str, content_type: str, work: Work
    ) -> web.StreamResponse:
        """path: as figures show it.  content_type: of an error."""
        headers = {name.lower(): value for name, value in request.raw_headers}
        request_id = self.events.request_id(headers)
        reported = {"request_id": request_id, "producer": ""}
        call = ServiceRequest(request, headers, request_id, self._loop.time(), reported)
        try:
            found = await work(call)
        except Refused as refused:
            reported["producer"] = reported["producer"] or refused.producer
            found = self._refused(refused.failure, call, content_type)
        except BREAKS:
            raise  # the client has gone, or speaks no HTTP any more: for the server's own frame
        except Exception:  # the outermost frame that knows whose shape the answer has
            if request.writer.output_size > 0:
                raise
            log.exception("request failed", extra={"path": request.rel_url.raw_path[:SHOWN]})
            failure = Failure(Reason.INTERNAL, "an internal error")
            found = self._refused(failure, call, content_type)
        if self.events.request_log.logs_every_request:
            request[REPORTED] = reported
        seconds = self._loop.time() - call.arrived
        if not isinstance(found, Reply):
            self.events.requests.request(path, found.status, seconds)
            return found
        self.events.requests.request(path, found.status, seconds)
        return response(found, request_id)

    def caller(self, call: ServiceRequest) -> Identity:
        """Who asks. Raises Refused."""
        found = self.events.callers.identify(call.headers, peer_of(call.request))
        if isinstance(found, Failure):
            raise Refused(found)
        call.reported["producer"] = found.name
        return found

    def producer(self, call: ServiceRequest, topic: str) -> Identity:
        """Return the caller, if it may post to the topic. Raises Refused."""
        peer = peer_of(call.request)
        found = self.events.caller(call.headers, peer, topic, call.request_id)
        call.reported["producer"] = found.name
        return found

    def _refused(self, failure: Failure, call: ServiceRequest, content_type: str) -> Reply:
        """The answer, which the log is told, too."""
        reply = failed(failure, content_type)
        self._report(call, failure, reply.status)
        return reply

    def refuse(self, call: ServiceRequest, reason: Reason, reply: Reply) -> Reply:
        """An answer in Confluent's own words; reason: for the log."""
        self._report(call, Failure(reason, orjson.loads(reply.body)["message"]), reply.status)
        return reply

    def _report(self, call: ServiceRequest, failure: Failure, status: int) -> None:
        path = call.request.rel_url.raw_path
        known = {"producer": call.reported["producer"], "path": path, "status": status}
        self.events.request_log.refused(failure, call.request_id, **known)

    def policy(self, topic: str, caller: Identity) -> TopicPolicy:
        """The policy of a topic that events may be produced to from here. Raises Refused."""
        return self.rules(topic, caller).policy

    def rules(self, topic: str, caller: Identity) -> Route:
        """Return the rules of a topic. Raises Refused, with a topic that the caller may mean."""
        gate = self.events.pipeline.gate
        try:
            return gate.rules(topic)
        except Refused as refused:
            failure = gate.with_suggestion(refused.failure, topic, caller.may_post)
            raise Refused(failure) from refused

    def cluster_id(self, policy: TopicPolicy) -> str:
        """Kafka's id of a topic's cluster. Raises Refused."""
        found = self.topics.cluster_ids().get(policy.cluster)
        if found is None:
            detail = f"cluster {policy.cluster} has not answered since the start"
            raise Refused(Failure(Reason.KAFKA_UNAVAILABLE, detail, None, 2))
        return found

    def not_offered(self, request: web.BaseRequest) -> web.Response | None:
        """The answer to those of Confluent's paths that are not here, None for other paths."""
        method, path = request.method[:SHOWN], request.rel_url.raw_path[:SHOWN]
        text = (
            f"{method} {path} is not offered: this gateway produces records (POST /topics/NAME, "
            "POST /v3/clusters/ID/topics/NAME/records) and lists topics and clusters; "
            "consume and administrate with a Kafka client"
        )
        return self.failed(request, Failure(Reason.NOT_FOUND, text))

    def failed(self, request: web.BaseRequest, failure: Failure) -> web.Response | None:
        """A failure in Confluent's shape where the path is one of theirs, None for others."""
        path = request.rel_url.raw_path
        if not any(path == prefix or path.startswith(prefix + "/") for prefix in _PREFIXES):
            return None
        content_type = confluent_v3.TYPE if path.startswith("/v3") else confluent_v2.TYPE
        request_id = self.events.request_id({})
        self.events.request_log.refused(failure, request_id, path=path)
        return response(failed(failure, content_type), request_id)


def no_cluster(cluster_id: str) -> Reply:
    """The answer where a path names a cluster that is not the one."""
    text = (
        f"Cluster {cluster_id[:SHOWN]} cannot be found; GET /v3/clusters lists those that there are"
    )
    return error(404, 404, text, confluent_v3.TYPE)


# ---- GET /topics and /v3/clusters: look-ups of clients before they produce


_RELATED = (
    "controller",
    "acls",
    "brokers",
    "broker_configs",
    "consumer_groups",
    "topics",
    "partition_reassignments",
)


class TopicViews:
    """Topics as far as the caller may post to them, and the clusters' ids."""

    def __init__(self, service: ProduceService) -> None:
        self._service = service
        self._topics = service.topics

    async def topics(self, request: web.BaseRequest) -> web.StreamResponse:
        """GET /topics."""
        return await self._service.answer(request, "/topics", confluent_v2.TYPE, self._names)

    async def topic(self, request: web.BaseRequest, topic: str) -> web.StreamResponse:
        """GET /topics/{topic}."""
        work = partial(self._topic, topic)
        return await self._service.answer(request, "/topics/{topic}", confluent_v2.TYPE, work)

    async def partitions(self, request: web.BaseRequest, topic: str) -> web.StreamResponse:
        """GET /topics/{topic}/partitions."""
        work, path = partial(self._partitions, topic), "/topics/{topic}/partitions"
        return await self._service.answer(request, path, confluent_v2.TYPE, work)

    async def partition(
        self, request: web.BaseRequest, topic: str, partition: str
    ) -> web.StreamResponse:
        """GET /topics/{topic}/partitions/{partition}."""
        work = partial(self._partition, topic, partition)
        path = "/topics/{topic}/partitions/{partition}"
        return await self._service.answer(request, path, confluent_v2.TYPE, work)

    async def clusters(self, request: web.BaseRequest) -> web.StreamResponse:
        """GET /v3/clusters."""
        return await self._service.answer(
            request, "/v3/clusters", confluent_v3.TYPE, self._clusters
        )

    async def cluster(self, request: web.BaseRequest, cluster_id: str) -> web.StreamResponse:
        """GET /v3/clusters/{cluster_id}."""
        work, path = partial(self._cluster, cluster_id), "/v3/clusters/{cluster_id}"
        return await self._service.answer(request, path, confluent_v3.TYPE, work)

    async def _names(self, call: ServiceRequest) -> Reply:
        caller = self._service.caller(call)
        known = (state.name for state in self._topics.states())
        names = [one for one in known if not one.startswith(INTERNAL_PREFIXES)]
        return _json([name for name in names if caller.may_post(name)], confluent_v2.TYPE)

    async def _topic(self, topic: str, call: ServiceRequest) -> Reply:
        state = self._state(topic, call)
        if isinstance(state, Reply):
            return state
        rows = _rows(await self._topics.partitions(state.name))
        page = {"name": topic, "configs": _configs(state), "partitions": rows}
        return _json(page, confluent_v2.TYPE)

    async def _partitions(self, topic: str, call: ServiceRequest) -> Reply:
        state = self._state(topic, call)
        if isinstance(state, Reply):
            return state
        return _json(_rows(await self._topics.partitions(state.name)), confluent_v2.TYPE)

    async def _partition(self, topic: str, partition: str, call: ServiceRequest) -> Reply:
        state = self._state(topic, call)
        if isinstance(state, Reply):
            return state
        for row in _rows(await self._topics.partitions(state.name)):
            if str(row["partition"]) == partition:
                return _json(row, confluent_v2.TYPE)
        detail = f"topic {brief(topic)} has no partition {brief(partition)}"
        raise Refused(Failure(Reason.UNKNOWN_PARTITION, detail))

    def _state(self, topic: str, call: ServiceRequest) -> TopicState | Reply:
        """Of a topic that is looked up; the answer where there is none. Raises Refused."""
        caller = self._service.caller(call)
        if not caller.may_post(topic):
            detail = f"producer {brief(caller.name)} may not post to topic {brief(topic)}"
            raise Refused(Failure(Reason.FORBIDDEN, detail))
        try:
            return self._service.rules(topic, caller).state
        except Refused as refused:
            if refused.failure.reason is not Reason.UNKNOWN_TOPIC:
                raise
            detail = refused.failure.detail
            reply = error(404, NOT_ON_THE_CLUSTER, detail, confluent_v2.TYPE)
            return self._service.refuse(call, Reason.UNKNOWN_TOPIC, reply)

    async def _clusters(self, call: ServiceRequest) -> Reply:
        self._service.caller(call)
        base = _base(call.request)
        found = [_shown(base, one) for one in sorted(set(self._topics.cluster_ids().values()))]
        page = {
            "kind": "KafkaClusterList",
            "metadata": {"self": base, "next": None},
            "data": found,
        }
        return _json(page, confluent_v3.TYPE)

    async def _cluster(self, cluster_id: str, call: ServiceRequest) -> Reply:
        self._service.caller(call)
        if cluster_id not in self._topics.cluster_ids().values():
            return self._service.refuse(call, Reason.NOT_FOUND, no_cluster(cluster_id))
        return _json(_shown(_base(call.request), cluster_id), confluent_v3.TYPE)


def _base(request: web.BaseRequest) -> str:
    return f"{request.scheme}://{request.host}/v3/clusters"


def _shown(base: str, cluster_id: str) -> dict[str, Any]:
    """One cluster. The related addresses are part of the shape; nothing is behind them here."""
    itself = f"{base}/{quote(cluster_id)}"
    return {
        "kind": "KafkaCluster",
        "metadata": {"self": itself, "resource_name": f"crn:///kafka={cluster_id}"},
        "cluster_id": cluster_id,
        **{name: {"related": f"{itself}/{name.replace('_', '-')}"} for name in _RELATED},
    }


def _configs(state: TopicState) -> dict[str, str]:
    return {
        "cleanup.policy": state.cleanup_policy,
        "compression.type": state.compression_type,
        "max.message.bytes": str(state.max_message_bytes),
        "message.timestamp.type": state.timestamp_type,
        "min.insync.replicas": str(state.min_insync_replicas),
        "retention.ms": str(state.retention_ms),
    }


def _rows(partitions: Sequence[PartitionState]) -> list[dict[str, Any]]:
    return [
        {
            "partition": partition.partition,
            "leader": partition.leader,
            "replicas": [
                {
                    "broker": node,
                    "leader": node == partition.leader,
                    "in_sync": node in partition.in_sync,
                }
                for node in partition.replicas
            ],
        }
        for partition in partitions
    ]


def _json(page: object, content_type: str) -> Reply:
    return Reply(200, content_type, (), json_text(page).encode())


# ---- POST /topics/{topic} and /topics/{topic}/partitions/{partition} (v2)


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
