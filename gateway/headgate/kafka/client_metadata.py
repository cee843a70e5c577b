"""aiokafka's own metadata requests, made again so that they create no topic and rediscover brokers.

aiokafka's ask the broker to create unknown topics, so a client that still remembers a deleted topic
would bring it back, empty.
"""

import asyncio
import logging
import random
from typing import Any

from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataRequest

log = logging.getLogger("headgate.backends.metadata")

# aiokafka asks again at once while a partition has no leader: some 500 requests a second for as
# long as an election takes. Java's retry.backoff.ms is 100.
_PAUSE_S = 0.1
_BEGIN_PAUSE_S = 1.0
_BEGIN_TIMEOUT_S = 10.0  # meanwhile brokers that are known may be back
_BOOTSTRAP = ("bootstrap", ConnectionGroup.DEFAULT)


class _Metadata:
    """Replaces `AIOKafkaClient._metadata_update` of aiokafka 0.14: same result, other request.

    And when no broker that it knows answers, it starts again with the bootstrap servers, as Java's
    clients do (KIP-899): a broker that the controller has fenced, for it stood still, may have
    named no broker at all, and brokers may come back under other addresses.
    """

    def __init__(self, client: AIOKafkaClient) -> None:
        self._client = client
        self._requested_at = self._began_at = 0.0

    async def update(self, cluster: ClusterMetadata, topics: set[str]) -> bool:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._requested_at + _PAUSE_S - loop.time()))
        self._requested_at = loop.time()
        if await self._ask_all(cluster, topics):
            return True
        if loop.time() - self._began_at < _BEGIN_PAUSE_S:
            return False
        await self._begin()
        self._began_at = loop.time()
        return await self._ask_all(cluster, topics)

    async def _begin(self) -> None:
        self._close_bootstrap()
        try:
            async with asyncio.timeout(_BEGIN_TIMEOUT_S):
                await self._client.bootstrap()
        except (KafkaError, TimeoutError) as error:
            log.warning("no metadata from the bootstrap servers: %r", error)
        self._close_bootstrap()

    def _close_bootstrap(self) -> None:
        # aiokafka keeps this connection when no broker was named.
        kept = self._client._conns.pop(_BOOTSTRAP, None)
        if kept is not None:
            kept.close()

    async def _ask_all(self, cluster: ClusterMetadata, topics: set[str]) -> bool:
        nodes = [broker.nodeId for broker in self._client.cluster.brokers()]
        random.shuffle(nodes)
        for node in nodes:
            answer = await self._ask(node, sorted(topics))
            if answer is not None and answer.brokers:
                cluster.update_metadata(answer)
                return True
        return False

    async def _ask(self, node: int, topics: list[str]) -> Any:
        connection = await self._client._get_conn(node)
        if connection is None:
            return None
        try:
            return await connection.send(MetadataRequest(topics, allow_auto_topic_creation=False))
        except (KafkaError, TimeoutError) as error:
            log.warning("no metadata from node %s: %r", node, error)
            return None


def never_create_topics(client: AIOKafkaClient) -> None:
    """Make an aiokafka client's own metadata requests create nothing and keep a pause."""
    client._metadata_update = _Metadata(client).update
