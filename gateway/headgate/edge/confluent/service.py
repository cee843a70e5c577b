"""What all of Confluent's paths share: who asks, which topic, and errors in Confluent's shape.

The way in is that of /v1: the same credentials, limits, budget, quotas, suppression and figures.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import orjson
from aiohttp import web

from headgate.core.formats import confluent_v2, confluent_v3
from headgate.core.formats.confluent import error, failed
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import SHOWN, Refused
from headgate.core.reply import Reply
from headgate.core.topics.policy import TopicPolicy
from headgate.core.topics.route import Route
from headgate.core.topics.topic import PartitionState, TopicState
from headgate.edge.auth import Identity
from headgate.edge.body import BREAKS
from headgate.edge.events import EventsFront
from headgate.edge.peer import peer_of
from headgate.edge.problems import response
from headgate.edge.request_log import REPORTED

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
