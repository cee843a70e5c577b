"""Stands between a client and the broker that it bootstraps from, and says what that may say.

A broker names itself to its clients, so only the way to the first metadata leads through here.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress

from aiokafka.protocol.metadata import MetadataResponse_v5

from headgate.devstack.ports import LOOPBACK
from support.network.accepting import accepting

_METADATA = 3  # its number in Kafka's protocol
_VERSION = MetadataResponse_v5.API_VERSION


class KafkaRelay:
    """target: `host:port`, may change (as the address behind a name does).

    names_brokers: False = metadata comes without any broker, as from one that was fenced because it
    stood still.  talks: cleared = it accepts connections and says nothing.  tells_metadata: cleared
    = it says nothing to those who ask for metadata.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.names_brokers = True
        self.talks = asyncio.Event()
        self.talks.set()
        self.tells_metadata = asyncio.Event()
        self.tells_metadata.set()
        self.bootstrap = ""
        self.unnamed = 0  # answers without a broker
        self.silent = 0  # connections that have asked and got no answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection until either side ends it."""
        host, port = self.target.split(":")
        with suppress(OSError, EOFError), closing(writer):
            broker, to_broker = await asyncio.open_connection(host, int(port))
            with closing(to_broker):
                while True:
                    await self._ask(await _frame(reader), broker, to_broker, writer)

    async def _ask(
        self,
        request: bytes,
        broker: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
        writer: asyncio.StreamWriter,
    ) -> None:
        kind, version, correlation = struct.unpack(">hhi", request[:8])
        for event in (self.talks, self.tells_metadata) if kind == _METADATA else (self.talks,):
            self.silent += not event.is_set()
            await event.wait()
        if (kind, version) == (_METADATA, _VERSION) and not self.names_brokers:
            self.unnamed += 1
            answer = struct.pack(">i", correlation)
            answer += MetadataResponse_v5(0, [], None, -1, []).encode()
        else:
            to_broker.write(struct.pack(">i", len(request)) + request)
            answer = await _frame(broker)
        writer.write(struct.pack(">i", len(answer)) + answer)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


@asynccontextmanager
async def kafka_relay(target: str) -> AsyncIterator[KafkaRelay]:
    """Relay to `target` as long as the block runs."""
    relay = KafkaRelay(target)
    async with accepting(relay.serve) as port:
        relay.bootstrap = f"{LOOPBACK}:{port}"
        yield relay
