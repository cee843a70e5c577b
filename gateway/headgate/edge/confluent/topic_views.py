"""GET /topics and /v3/clusters: what clients of Confluent's REST look up before they produce."""

from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from aiohttp import web

from headgate.core.formats import confluent_v2, confluent_v3
from headgate.core.formats.confluent import NOT_ON_THE_CLUSTER, error
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, brief
from headgate.core.reply import Reply, json_text
from headgate.core.topics.policy import INTERNAL_PREFIXES
from headgate.core.topics.topic import PartitionState, TopicState
from headgate.edge.confluent.service import ProduceService, ServiceRequest, no_cluster

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
