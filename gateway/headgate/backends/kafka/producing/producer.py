"""An idempotent aiokafka producer as lanes need it; the only file that touches its inside.

Public: `start`. Private, and why (aiokafka is pinned to 0.14):
- `_txn_manager._sequence_numbers`: a refused batch consumes its sequence numbers and nothing ever
  gives them back (aio-libs/aiokafka #1017); `rewind` does.
- `_txn_manager._pid_and_epoch`: the successor keeps the producer id and raises the epoch, as
  Java's producer does (KIP-360). Brokers then refuse what may still be on its way from before.
- `_sender`, `client._sync_task`: a dead one leaves a producer that accepts and never sends (#1039).
- `_message_accumulator`: how often a batch was attempted, and that it never expires by itself.
  `_append_batch` is what `send_batch` ends in; before it come checks that the lane has made, and
  after it a shield around a future that nobody here ever cancels. Without that shield a lane also
  hears of its batch before the sender looks for the next request's batches, not after.
- `_sender._in_flight`: the brokers that have a request under way.
- `SendProduceReqHandler`: it tries again what a broker refused for one topic, and the other topics
  of the broker wait meanwhile; and it names topics by name alone. See `produce_request`.
"""

import asyncio
import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import NoBrokersAvailable, ProducerClosed
from aiokafka.producer.message_accumulator import MessageBatch
from aiokafka.producer.transaction_manager import PidAndEpoch
from aiokafka.structs import RecordMetadata, TopicPartition

from headgate.backends.kafka.options import ClusterOptions
from headgate.backends.kafka.producing.builder import Builder
from headgate.backends.kafka.producing.compression import keep_zstd
from headgate.backends.kafka.producing.produce_request import BatchSender, address
from headgate.backends.kafka.producing.refusals import learn_error_codes
from headgate.backends.kafka.producing.rounds import Rounds
from headgate.kafka.access import client_arguments
from headgate.kafka.client_metadata import use_own_metadata
from headgate.kafka.closing import drop_client

START_TIMEOUT_S = 10.0
_LEARN_S = 1.0
_MAX_EPOCH = 32_000  # an int16 in the protocol
_FENCED = ("ProducerFenced", "InvalidProducerEpoch", "UnknownProducerId")


class Handed(NamedTuple):
    """A batch that is with the producer. base_sequence: what `rewind` goes back to."""

    future: asyncio.Future[RecordMetadata]
    inside: MessageBatch
    base_sequence: int

    @property
    def attempts(self) -> int:
        """How often the batch was given to a connection; 0 = not one byte has left."""
        return int(self.inside.retry_count)


class Producer:
    """One connected producer, from `start` to `drop`. `broken` is set once with the reason."""

    def __init__(
        self, options: ClusterOptions, max_batch_bytes: int, is_pressed: Callable[[], bool]
    ) -> None:
        learn_error_codes()
        keep_zstd()
        self._inner = AIOKafkaProducer(
            **client_arguments(options),
            enable_idempotence=True,
            acks="all",
            max_batch_size=max_batch_bytes,
            compression_type=None if options.compression == "none" else options.compression,
            request_timeout_ms=options.request_timeout_ms,
            linger_ms=0,
        )
        # A batch without a leader would expire after request_timeout_ms and poison its partition.
        # The lane's own deadline ends it instead.
        self._accumulator = self._inner._message_accumulator
        self._accumulator._batch_ttl = float("inf")
        use_own_metadata(self._inner.client)
        self._requests: set[asyncio.Task[None]] = set()
        busy = self._inner._sender._in_flight
        self._rounds = Rounds(options.linger_ms / 1000, busy, is_pressed)
        self._own_requests()
        self.broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._cluster = self._inner.client.cluster
        self._cluster.add_listener(self._metadata_changed)

    async def start(self, before: "Producer | None" = None) -> None:
        """Connect, as the successor of `before`. Raises KafkaError, OSError or TimeoutError."""
        if before is not None:
            self._follow(before)
        async with asyncio.timeout(START_TIMEOUT_S):
            await self._inner.start()
        if not self._cluster.brokers():  # with the producer id of `before` it needs none to start
            raise NoBrokersAvailable("the cluster names no broker")
        self._inner._sender.sender_task.add_done_callback(self._died)
        self._inner.client._sync_task.add_done_callback(self._died)

    def knows(self, tp: TopicPartition) -> bool:
        """Tell whether the partition is in this client's metadata, which `send` relies on."""
        found = self._cluster._partitions.get(tp.topic)
        return found is not None and tp.partition in found

    def turn(
        self, tp: TopicPartition, is_first: bool, is_full: bool
    ) -> asyncio.Future[None] | None:
        """Return what to wait for before `send`, or None (see `Rounds.turn`).

        Nobody waits for a partition without leader: aiokafka looks for it, and does so only for
        batches that it has.
        """
        leader = self._cluster._partitions[tp.topic][tp.partition].leader
        return self._rounds.turn(leader, is_first, is_full) if leader >= 0 else None

    def create_batch(self) -> Builder:
        """A new batch for `send`."""
        accumulator = self._accumulator
        return Builder(accumulator._compression_type, accumulator._batch_size)

    async def learn(self, topic: str) -> None:
        """Ask for a topic's metadata once; give up after a while, the producer may be dropped."""
        client = self._inner.client
        client.add_topic(topic)
        await asyncio.wait([client.force_metadata_update()], timeout=_LEARN_S)

    def forget(self, topic: str) -> None:
        """Ask for a deleted topic's metadata no more."""
        self._inner.client._topics.discard(topic)

    def send(self, builder: Any, tp: TopicPartition, topic_id: bytes) -> Handed:
        """Hand a batch over, of a partition that it `knows` and that has no other outstanding.

        topic_id: of the topic that the batch is for; no other topic of this name gets it.

        Raises KafkaError when the sender has died.
        """
        accumulator = self._accumulator
        if accumulator._exception is not None:
            raise copy.copy(accumulator._exception)
        if accumulator._closed or self._inner._closed or tp in accumulator._batches:
            raise ProducerClosed
        sequence = self._inner._txn_manager.sequence_number(tp)
        builder.close()
        batch = accumulator._append_batch(builder, tp)
        address(batch, topic_id)
        return Handed(batch.future, batch, sequence)

    def rewind(self, handed: Handed) -> None:
        """Take back the sequence numbers of a batch that was refused at its only attempt.

        Exact because the lane has no other batch outstanding.
        """
        self._inner._txn_manager._sequence_numbers[handed.inside.tp] = handed.base_sequence

    def is_waiting(self, handed: Handed) -> bool:
        """Tell whether the sender has the batch, and no request carries it now."""
        return handed.inside in self._accumulator._batches.get(handed.inside.tp, ())

    def take_back(self, handed: Handed) -> None:
        """Give up a batch that is waiting and was never sent."""
        batches = self._accumulator._batches
        batches[handed.inside.tp].remove(handed.inside)
        if not batches[handed.inside.tp]:
            del batches[handed.inside.tp]

    def fail(self, reason: str) -> None:
        """Ask for a successor."""
        if not self.broken.done():
            self.broken.set_result(reason)

    async def drop(self) -> None:
        """End it for good, at once: nothing that has not left this machine is sent any more."""
        self._inner._closed = True  # what stop() would set; stop() itself can hang
        for request in self._requests:
            request.cancel()
        sender = self._inner._sender.sender_task
        if sender is not None:
            sender.cancel()
        self._rounds.go()
        await drop_client(self._inner.client, sender, *self._requests)

    def _follow(self, before: "Producer") -> None:
        pid, epoch = before._inner._txn_manager._pid_and_epoch
        fenced = before.broken.done() and before.broken.result() in _FENCED
        if pid >= 0 and epoch < _MAX_EPOCH and not fenced:
            self._inner._txn_manager._pid_and_epoch = PidAndEpoch(pid, epoch + 1)

    def _own_requests(self) -> None:
        # The sender keeps its request tasks in a local variable; cancelling it could leave some.
        sender = self._inner._sender

        async def send_owned(node: int, batches: dict[TopicPartition, MessageBatch]) -> None:
            task = asyncio.current_task()
            if task is not None:
                self._requests.add(task)
                task.add_done_callback(self._requests.discard)
            records = sum([batch.record_count for batch in batches.values()])
            try:
                await BatchSender(sender, batches).do(node)
                sender._in_flight.remove(node)
                sender._muted_partitions.difference_update(batches)
            finally:
                self._rounds.ended(node, records)

        sender._send_produce_req = send_owned

    def _metadata_changed(self, _: object) -> None:
        self._rounds.go()

    def _died(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self.fail(type(error).__name__ if error is not None else "sender_ended")
