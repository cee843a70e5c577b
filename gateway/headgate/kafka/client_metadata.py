"""aiokafka's own metadata requests, made again: no topic is created, no connection is left open.

aiokafka's ask the broker to create unknown topics, so a client that still remembers a deleted topic
would bring it back, empty.
"""

import asyncio
import logging
import random
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from headgate.errors_in_words import connection_error

# In aiokafka's place, so a command that silences its client silences this, too.
log = logging.getLogger("aiokafka.client")

# aiokafka asks again at once while a partition has no leader: some 500 requests a second for as
# long as an election takes. Java's retry.backoff.ms is 100.
_PAUSE_S = 0.1
_BEGIN_PAUSE_S = 1.0
_NO_KAFKA = "it accepts connections and does not answer; check security_protocol and the port"
_BEGIN_TIMEOUT_S = 10.0  # meanwhile brokers that are known may be back


class _Metadata:
    """Replaces `bootstrap` and `_metadata_update` of aiokafka 0.14's `AIOKafkaClient`: same result,
    other request.

    When no broker that it knows answers, it starts again with the bootstrap servers, as Java's
    clients do (KIP-899): a broker that the controller has fenced, for it stood still, may have
    named no broker at all, and brokers may come back under other addresses.
    """

    def __init__(self, client: AIOKafkaClient) -> None:
        self._client = client
        self._requested_at = self._began_at = 0.0

    async def bootstrap(self) -> None:
        """Raises KafkaConnectionError when no bootstrap server answers.

        aiokafka's leaves its connection open when it is broken off, by a timeout or the end of its
        task, and keeps it when no broker is named.
        """
        client = self._client
        reasons: list[str] = []
        for host, port, _ in client.hosts:
            answer = await self._ask_first(host, port, reasons)
            if answer is not None:
                break
        else:
            raise KafkaConnectionError(f"no bootstrap server answers: {'; '.join(reasons)}")
        client.cluster.update_metadata(answer)
        if client._sync_task is None:
            client._sync_task = asyncio.create_task(client._md_synchronizer())

    async def update(self, cluster: ClusterMetadata, topics: set[str] | None) -> bool:
        """topics: None = all. An empty set asks for none, where aiokafka's asks for all."""
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
        try:
            async with asyncio.timeout(_BEGIN_TIMEOUT_S):
                await self.bootstrap()
        except (KafkaError, TimeoutError) as error:
            log.warning("bootstrap servers returned no metadata: %r", error)

    async def _ask_first(self, host: str, port: int, reasons: list[str]) -> Any:
        """Return a bootstrap server's answer about the brokers, or None and add the reason."""
        try:
            connection = await _connect(self._client, host, port)
        except (OSError, KafkaError, TimeoutError) as error:
            reason = connection_error(error)
            log.warning("bootstrap server %s:%s cannot be reached: %s", host, port, reason)
            reasons.append(f"{host}:{port}: {reason}")
            return None
        try:
            return await connection.send(MetadataRequest([]))
        except (KafkaError, TimeoutError) as error:
            log.warning("bootstrap server %s:%s returned no metadata: %r", host, port, error)
            reasons.append(f"{host}:{port}: {_NO_KAFKA}")
            return None
        finally:
            connection.close()

    async def _ask_all(self, cluster: ClusterMetadata, topics: set[str] | None) -> bool:
        nodes = [broker.nodeId for broker in self._client.cluster.brokers()]
        random.shuffle(nodes)
        for node in nodes:
            answer = await self._ask(node, None if topics is None else sorted(topics))
            if answer is not None and answer.brokers:
                cluster.update_metadata(answer)
                return True
        return False

    async def _ask(self, node: int, topics: list[str] | None) -> Any:
        connection = await self._client._get_conn(node)
        if connection is None:
            return None
        try:
            return await connection.send(MetadataRequest(topics, allow_auto_topic_creation=False))
        except (KafkaError, TimeoutError) as error:
            log.warning("Kafka node %s returned no metadata: %r", node, error)
            return None


async def _connect(client: AIOKafkaClient, host: str, port: int) -> AIOKafkaConnection:
    """As the client does itself. Raises OSError, KafkaError, TimeoutError."""
    return await create_conn(
        host,
        port,
        client_id=client._client_id,
        request_timeout_ms=client._request_timeout_ms,
        ssl_context=client._ssl_context,
        security_protocol=client._security_protocol,
        max_idle_ms=client._connections_max_idle_ms,
        sasl_mechanism=client._sasl_mechanism,
        sasl_plain_username=client._sasl_plain_username,
        sasl_plain_password=client._sasl_plain_password,
        sasl_kerberos_service_name=client._sasl_kerberos_service_name,
        sasl_kerberos_domain_name=client._sasl_kerberos_domain_name,
        sasl_oauth_token_provider=client._sasl_oauth_token_provider,
    )


def use_own_metadata(client: AIOKafkaClient) -> None:
    """Have an aiokafka client that has not been started ask for metadata in our way: creating
    nothing, with a pause, and leaving no connection open."""
    own = _Metadata(client)
    client.bootstrap, client._metadata_update = own.bootstrap, own.update
