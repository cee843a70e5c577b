"""Confluent's paths: common parts, look-ups of topics and clusters, and producing with REST v2.

Requests are handled like those of /v1: same credentials, limits, budget, quotas, suppression and
metrics.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

import orjson
from aiohttp import web

from headgate.formats.confluent import (
    NOT_ON_THE_CLUSTER,
    V2_TYPE,
    V3_TYPE,
    Format,
    codes_of,
    error,
    failed,
    format_of,
    produced,
    read_records,
)
from headgate.formats.decode import Decoded
from headgate.http.answer import response
from headgate.http.auth import Identity
from headgate.http.body import BREAKS
from headgate.http.events import Call, EventsFront, maybe_written
from headgate.http.request_log import REPORTED, TRACE
from headgate.kafka.topics import KafkaTopics
from headgate.model.outcome import SHOWN, Failure, Reason, Refused, brief
from headgate.model.policy import INTERNAL_PREFIXES, TopicPolicy
from headgate.model.publish import Ticket
from headgate.model.reply import Reply, json_text
from headgate.model.request import of_one_port
from headgate.model.route import Route
from headgate.model.topics import PartitionState, TopicState

log = logging.getLogger("headgate.http")

_PREFIXES = ("/topics", "/consumers", "/brokers", "/v3")


Work = Callable[[Call], Awaitable[Reply | web.StreamResponse]]


_RELATED = (
    "controller",
    "acls",
    "brokers",
    "broker_configs",
    "consumer_groups",
    "topics",
    "partition_reassignments",
)
_DIGITS = 10  # of a partition


class ProduceService:
    """Confluent's endpoints, except records of REST v3 (`confluent.records`).

    `answer` calls an endpoint, and turns failures into Confluent's errors.

    Args:
        events: Front for posting events.
        topics: State of topics and clusters in Kafka.
        max_events: Limit http.batch_max_events.
    """

    def __init__(self, events: EventsFront, topics: KafkaTopics, max_events: int) -> None:
        self.events = events
        self.topics = topics
        self._max_events = max_events

    async def answer(
        self, request: web.BaseRequest, path: str, content_type: str, work: Work
    ) -> web.StreamResponse:
        """Handle a request, and count it.

        Args:
            request: The request.
            path: Template of the path, for metrics.
            content_type: Content type of error responses.
            work: Handler of the request.
        """
        call = self.events.call_of(request)
        try:
            reply = await work(call)
        except Refused as refused:
            call.reported["producer"] = call.producer or refused.producer
            reply = self._refused(refused.failure, call, content_type)
        except BREAKS:
            raise  # the client left or sends invalid HTTP, which the server handles
        except Exception:  # the outermost frame that knows the format of error responses
            if request.writer.output_size > 0:
                raise
            log.exception("request failed", extra={"path": request.rel_url.raw_path[:SHOWN]})
            failure = Failure(Reason.INTERNAL, "an internal error")
            reply = self._refused(failure, call, content_type)
        if self.events.request_log.logs_every_request:
            request[REPORTED] = call.reported
        seconds = self.events.now() - call.arrived
        self.events.count(path, reply.status, seconds, call.request_id, request.get(TRACE))
        return response(reply, call.request_id) if isinstance(reply, Reply) else reply

    def _refused(self, failure: Failure, call: Call, content_type: str) -> Reply:
        """Return the response to a failure, and log the failure."""
        reply = failed(failure, content_type)
        self._report(call, failure, reply.status)
        return reply

    def refused_as(self, call: Call, reason: Reason, reply: Reply) -> Reply:
        """Log a refused request and return its response.

        Args:
            call: The request.
            reason: Reason for the log.
            reply: Response in Confluent's format.
        """
        self._report(call, Failure(reason, orjson.loads(reply.body)["message"]), reply.status)
        return reply

    def _report(self, call: Call, failure: Failure, status: int) -> None:
        path = call.request.rel_url.raw_path
        remote = call.request.remote
        fields = {"producer": call.producer, "path": path, "status": status, "remote": remote}
        trace = call.request.get(TRACE)
        self.events.request_log.refused(failure, call.request_id, trace, **fields)

    def policy(self, topic: str, caller: Identity) -> TopicPolicy:
        """Return the policy of a topic to which the gateway may produce.

        Raises:
            Refused: The topic is unknown or not available.
        """
        return self.route(topic, caller).policy

    def route(self, topic: str, caller: Identity) -> Route:
        """Return the route of a topic.

        Raises:
            Refused: The topic is unknown or not available. The failure suggests a similar topic.
        """
        gate = self.events.pipeline.gate
        try:
            return gate.find_route(topic)
        except Refused as refused:
            failure = gate.with_suggestion(refused.failure, topic, caller.may_post)
            raise Refused(failure) from refused

    def cluster_id(self, policy: TopicPolicy) -> str:
        """Return Kafka's id of a topic's cluster.

        Raises:
            Refused: The cluster has not responded since the start.
        """
        cluster_id = self.topics.cluster_ids().get(policy.cluster)
        if cluster_id is None:
            detail = f"cluster {policy.cluster} has not answered since the start"
            raise Refused(Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=2))
        return cluster_id

    def not_offered(self, request: web.BaseRequest) -> web.Response | None:
        """Return the response for Confluent's paths that are not offered; None for other paths."""
        method, path = request.method[:SHOWN], request.rel_url.raw_path[:SHOWN]
        hint = of_one_port(request.method, request.rel_url.raw_path)
        if hint:
            return self.failed(request, Failure(Reason.NOT_FOUND, f"no page at {path}{hint}"))
        text = (
            f"{method} {path} is not offered: this gateway produces records (POST /topics/NAME, "
            "POST /v3/clusters/ID/topics/NAME/records) and lists topics and clusters; "
            "consume and administrate with a Kafka client"
        )
        return self.failed(request, Failure(Reason.NOT_FOUND, text))

    def failed(self, request: web.BaseRequest, failure: Failure) -> web.Response | None:
        """Return a failure in Confluent's format on Confluent's paths; None for other paths."""
        path = request.rel_url.raw_path
        if not any(path == prefix or path.startswith(prefix + "/") for prefix in _PREFIXES):
            return None
        content_type = V3_TYPE if path.startswith("/v3") else V2_TYPE
        request_id = self.events.request_id({})
        self.events.request_log.refused(
            failure, request_id, request.get(TRACE), path=path, remote=request.remote
        )
        return response(failed(failure, content_type), request_id)

    # ---- look-ups of clients before they produce: the topics that the caller may write to

    async def all_topics(self, call: Call) -> Reply:
        """Handle GET /topics."""
        caller = self.events.identify(call)
        names = [state.name for state in self.topics.states() if caller.may_post(state.name)]
        page = [name for name in names if not name.startswith(INTERNAL_PREFIXES)]
        return _json(page, V2_TYPE)

    async def topic(self, topic: str, call: Call) -> Reply:
        """Handle GET /topics/{topic}."""
        state = self._state(topic, call)
        if isinstance(state, Reply):
            return state
        rows = _rows(await self.topics.partitions(state.name))
        page = {"name": topic, "configs": _configs(state), "partitions": rows}
        return _json(page, V2_TYPE)

    async def partitions(self, topic: str, call: Call) -> Reply:
        """Handle GET /topics/{topic}/partitions."""
        state = self._state(topic, call)
        if isinstance(state, Reply):
            return state
        return _json(_rows(await self.topics.partitions(state.name)), V2_TYPE)

    async def partition(self, topic: str, partition: str, call: Call) -> Reply:
        """Handle GET /topics/{topic}/partitions/{partition}."""
        state = self._state(topic, call)
        if isinstance(state, Reply):
            return state
        for row in _rows(await self.topics.partitions(state.name)):
            if str(row["partition"]) == partition:
                return _json(row, V2_TYPE)
        detail = f"topic {brief(topic)} has no partition {brief(partition)}"
        raise Refused(Failure(Reason.UNKNOWN_PARTITION, detail))

    def _state(self, topic: str, call: Call) -> TopicState | Reply:
        """Return the state of a topic, or the response if the topic is unknown.

        Raises:
            Refused: The caller may not write to the topic, or the topic is not available.
        """
        caller = self.events.identify(call)
        if not caller.may_post(topic):
            raise Refused(caller.refusal(topic))
        try:
            return self.route(topic, caller).state
        except Refused as refused:
            if refused.failure.reason is not Reason.UNKNOWN_TOPIC:
                raise
            detail = refused.failure.detail
            reply = error(404, NOT_ON_THE_CLUSTER, detail, V2_TYPE)
            return self.refused_as(call, Reason.UNKNOWN_TOPIC, reply)

    async def clusters(self, call: Call) -> Reply:
        """Handle GET /v3/clusters."""
        self.events.identify(call)
        base = _base(call.request)
        ids = sorted(set(self.topics.cluster_ids().values()))
        rows = [_shown(base, cluster_id) for cluster_id in ids]
        metadata = {"self": base, "next": None}
        page = {"kind": "KafkaClusterList", "metadata": metadata, "data": rows}
        return _json(page, V3_TYPE)

    async def cluster(self, cluster_id: str, call: Call) -> Reply:
        """Handle GET /v3/clusters/{cluster_id}."""
        self.events.identify(call)
        if cluster_id not in self.topics.cluster_ids().values():
            return self.refused_as(call, Reason.NOT_FOUND, no_cluster(cluster_id))
        return _json(_shown(_base(call.request), cluster_id), V3_TYPE)

    # ---- records of REST v2

    async def produce(self, topic: str, call: Call) -> Reply:
        """Handle POST /topics/{topic}."""
        return await self.produce_to(topic, None, call)

    async def produce_to(self, topic: str, partition: str | None, call: Call) -> Reply:
        """Handle POST /topics/{topic}/partitions/{partition}: respond once every record ended."""
        events = self.events
        caller = self.events.admit_call(call, topic)
        producer = caller.name
        form = _format(call.headers.get(b"content-type", b""))
        if isinstance(form, Reply):
            return self.refused_as(call, Reason.UNSUPPORTED_ENCODING, form)
        self.policy(topic, caller)
        number = None if partition is None else _number(topic, partition)
        body = await events.body(call, topic)
        ticket = Ticket(
            topic,
            producer,
            call.request_id,
            events.now(),
            call.headers,
            body,
            trace=call.request.get(TRACE),
        )
        del body  # the ticket drops it when it was decoded
        endpoint = f"v2/{'' if number is None else number}".encode()
        ticket = await events.run(ticket, partial(self._decode, form, number), endpoint)
        with maybe_written():
            outcomes = ticket.answered()
            failure = outcomes[0].failure if outcomes else None
            status = 200 if ticket.is_batch or failure is None else codes_of(failure)[0]
            events.request_log.ended(ticket, status)
            if ticket.is_batch and outcomes:
                return events.with_headers(ticket, produced(outcomes))
        assert failure is not None, "a request has a record, or was refused"
        return failed(failure, V2_TYPE)

    def _decode(self, form: Format, partition: int | None, ticket: Ticket, route: Route) -> Decoded:
        records = read_records(
            ticket.body,
            form,
            route.policy.compat_json_keys,
            partition,
            self._max_events,
            route.key_max_bytes,
        )
        return Decoded([*records], True)


def no_cluster(cluster_id: str) -> Reply:
    """Return the response for a path with an unknown cluster."""
    text = (
        f"Cluster {cluster_id[:SHOWN]} cannot be found; GET /v3/clusters lists those that there are"
    )
    return error(404, 404, text, V3_TYPE)


def _base(request: web.BaseRequest) -> str:
    return f"{request.scheme}://{request.host}/v3/clusters"


def _shown(base: str, cluster_id: str) -> dict[str, Any]:
    """Return the JSON of a cluster. The related URLs belong to the format, but are not served."""
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


def _format(content_type: bytes) -> Format | Reply:
    form = format_of(content_type)
    if form is not None:
        return form
    named = content_type.decode("latin-1")
    why = ""
    if any(name in named.lower() for name in ("avro", "protobuf", "jsonschema")):
        why = "; formats with schemas need a schema registry, which this gateway has not"
    taken = ", ".join(known_format.value for known_format in Format)
    text = f"Content-Type {named[:SHOWN] or 'none'}: use one of {taken}{why}"
    return error(415, 415, text, V2_TYPE)


def _number(topic: str, partition: str) -> int:
    if partition.isascii() and partition.isdigit() and len(partition) <= _DIGITS:
        return int(partition)
    detail = f"topic {brief(topic)} has no partition {brief(partition)}"
    raise Refused(Failure(Reason.UNKNOWN_PARTITION, detail))
