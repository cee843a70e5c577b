"""The private parts of the installed aiokafka that kafka/aiokafka_internals.py uses.

Each failure names the part and the functions that need it. Nothing here is a mock: the objects are
aiokafka's own, without a broker.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import inspect
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from importlib.metadata import version
from types import CodeType, NoneType
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.codec import zstd_encode
from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.consumer import fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.producer import message_accumulator
from aiokafka.producer.message_accumulator import BatchBuilder, MessageAccumulator, MessageBatch
from aiokafka.producer.sender import Sender, SendProduceReqHandler
from aiokafka.producer.transaction_manager import TransactionManager
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.record import default_records

from headgate.kafka import aiokafka_internals
from headgate.kafka.access import ClusterAccess
from headgate.kafka.aiokafka_internals import (
    CompiledEncoder,
    client_of,
    drop_admin,
    drop_client,
    drop_consumer,
    drop_producer,
    known_position,
    open_admin,
    open_client,
    open_consumer,
    open_producer,
    replace_zstd,
)
from headgate.kafka.producer import Builder, SingleRecordBuilder

SOURCE = inspect.getsource(aiokafka_internals)
TREE = ast.parse(SOURCE)
SERVERS = "127.0.0.1:1"  # nothing connects to it
TP = TopicPartition("deals", 0)
INSTALLED = f"aiokafka {version('aiokafka')}"

Task = (NoneType, asyncio.Task)
Text = (NoneType, str)


class Part(NamedTuple):
    """A part of aiokafka.

    Attributes:
        owner: The object or class, by its name in `parts`.
        name: The attribute.
        shape: The types of its value, or the names of a function's parameters.
        readers: aiokafka's functions that must use the attribute, because a value that is set has
            no effect otherwise.
    """

    owner: str
    name: str
    shape: type | tuple[type, ...] | str
    readers: tuple[Callable[..., Any], ...] = ()


PARTS = (
    # Metadata requests, clients, connections
    Part("client", "bootstrap", "", (AIOKafkaConsumer.start, AIOKafkaProducer.start)),
    Part(
        "client", "_metadata_update", "cluster_metadata topics", (AIOKafkaClient._md_synchronizer,)
    ),
    Part("client", "hosts", list),
    Part("client", "cluster", ClusterMetadata),
    Part("client", "_sync_task", Task, (AIOKafkaClient.close,)),
    Part("client", "_md_synchronizer", ""),
    Part("client", "_get_conn", "node_id group no_hint"),
    Part("client", "_client_id", str),
    Part("client", "_request_timeout_ms", int),
    Part("client", "_ssl_context", (NoneType, ssl.SSLContext)),
    Part("client", "_security_protocol", str),
    Part("client", "_connections_max_idle_ms", int),
    Part("client", "_sasl_mechanism", str),
    Part("client", "_sasl_plain_username", Text),
    Part("client", "_sasl_plain_password", Text),
    Part("client", "_sasl_kerberos_service_name", str),
    Part("client", "_sasl_kerberos_domain_name", Text),
    Part("client", "_sasl_oauth_token_provider", object),
    Part("client", "_conns", dict, (AIOKafkaClient._get_conn, AIOKafkaClient.close)),
    Part("client", "_get_conn_lock_value", (NoneType, asyncio.Lock)),
    Part("connection", "_writer", (NoneType, asyncio.StreamWriter), (AIOKafkaConnection.connect,)),
    Part("admin", "_client", AIOKafkaClient, (AIOKafkaAdminClient.start,)),
    # Consumers and their groups
    Part("consumer", "_client", AIOKafkaClient, (AIOKafkaConsumer.start,)),
    Part("consumer", "_closed", bool, (AIOKafkaConsumer.__del__, AIOKafkaConsumer.stop)),
    Part("consumer", "_fetcher", fetcher.Fetcher),
    Part("consumer", "_coordinator", object),
    Part("consumer", "_subscription", SubscriptionState),
    Part("fetcher", "_fetch_task", asyncio.Task),
    Part("fetcher", "_pending_tasks", set),
    Part("coordinator without a group", "_reset_committed_task", asyncio.Task),
    Part("coordinator", "_coordination_task", asyncio.Task),
    Part("coordinator", "_heartbeat_task", Task),
    Part("coordinator", "_commit_refresh_task", Task),
    Part("coordinator", "_pending_exception", NoneType, (GroupCoordinator._push_error_to_user,)),
    Part("coordinator", "fetch_committed_offsets", "partitions"),
    Part("coordinator", "ensure_coordinator_known", ""),
    Part("coordinator", "_do_commit_offsets", "assignment offsets"),
    Part("coordinator", "generation", int, (GroupCoordinator._do_commit_offsets,)),
    Part("coordinator", "member_id", str, (GroupCoordinator._do_commit_offsets,)),
    # Producers
    Part("producer", "_closed", bool, (AIOKafkaProducer.__del__, AIOKafkaProducer.stop)),
    Part("producer", "_sender", Sender, (AIOKafkaProducer.start,)),
    Part("producer", "_message_accumulator", MessageAccumulator, (AIOKafkaProducer.send_batch,)),
    Part("producer", "_txn_manager", TransactionManager),
    Part("sender", "sender_task", Task),
    Part("sender", "_in_flight", set, (Sender._sender_routine,)),
    Part("sender", "_muted_partitions", set, (Sender._sender_routine,)),
    Part("sender", "_send_produce_req", "node_id batches", (Sender._sender_routine,)),
    Part("sender", "_maybe_do_transactional_request", "", (Sender._sender_routine,)),
    Part("transaction manager", "producer_id", int, (MessageAccumulator._pop_batch,)),
    Part("transaction manager", "producer_epoch", int, (MessageAccumulator._pop_batch,)),
    Part("transaction manager", "set_pid_and_epoch", "pid epoch"),
    Part("transaction manager", "sequence_number", "tp", (MessageAccumulator._pop_batch,)),
    Part("transaction manager", "increment_sequence_number", "tp increment"),
    Part("transaction manager", "is_in_transaction", ""),
    Part("accumulator", "_batch_ttl", (int, float), (MessageAccumulator._append_batch,)),
    Part("accumulator", "_exception", NoneType, (MessageAccumulator.fail_all,)),
    Part("accumulator", "_closed", bool, (MessageAccumulator.close,)),
    Part("accumulator", "_batches", dict, (MessageAccumulator.drain_by_nodes,)),
    Part("accumulator", "_pending_batches", set, (MessageAccumulator.fail_all,)),
    Part("accumulator", "_append_batch", "builder tp"),
    Part("accumulator", "_compression_type", int, (MessageAccumulator.create_builder,)),
    Part("accumulator", "_batch_size", int, (MessageAccumulator.create_builder,)),
    Part("batch", "future", asyncio.Future),
    Part("batch", "tp", TopicPartition),
    Part("batch", "retry_count", int),
    Part("batch", "record_count", int),
    Part("batch", "get_data_buffer", ""),
    Part("batch", "_drain_waiter", asyncio.Future, (MessageBatch.failure,)),
    Part("request handler", "__init__", "self sender batches"),
    Part("request handler", "create_request", "self", (SendProduceReqHandler.do,)),
    Part("request handler", "do", "self node_id"),
    Part(
        "request handler",
        "_can_retry",
        "self error batch",
        (SendProduceReqHandler.do, SendProduceReqHandler.handle_response),
    ),
    # Record batches
    Part("batch in Python", "__init__", "self buffer"),
    Part("batch in Python", "_maybe_uncompress", "self"),
    Part(
        "encoder in Python",
        "__init__",
        "self magic compression_type is_transactional producer_id producer_epoch base_sequence"
        " batch_size",
    ),
)
IDS = [f"{part.owner}.{part.name}" for part in PARTS]


@pytest.fixture
async def parts() -> AsyncIterator[dict[str, Any]]:
    """aiokafka's own objects by the names that `PARTS` uses."""
    client = AIOKafkaClient(bootstrap_servers=SERVERS)
    admin = AIOKafkaAdminClient(bootstrap_servers=SERVERS)
    consumer, member = await started(None), await started("readers")
    producer = AIOKafkaProducer(bootstrap_servers=SERVERS, enable_idempotence=True)
    accumulator = producer._message_accumulator
    batch = accumulator._append_batch(accumulator.create_builder(), TP)
    yield {
        "client": client,
        "connection": AIOKafkaConnection("127.0.0.1", 1),
        "admin": admin,
        "consumer": consumer,
        "fetcher": consumer._fetcher,
        "coordinator without a group": consumer._coordinator,
        "coordinator": member._coordinator,
        "producer": producer,
        "sender": producer._sender,
        "transaction manager": producer._txn_manager,
        "accumulator": accumulator,
        "batch": batch,
        "request handler": SendProduceReqHandler,
        "batch in Python": default_records._DefaultRecordBatchPy,
        "encoder in Python": default_records._DefaultRecordBatchBuilderPy,
    }
    await drop_client(client)
    await drop_admin(admin)
    await drop_consumer(consumer)
    await drop_consumer(member)
    await drop_producer(producer)


async def started(group: str | None) -> AIOKafkaConsumer:
    """A consumer whose tasks run, but which has no connection."""
    consumer = AIOKafkaConsumer(bootstrap_servers=SERVERS, group_id=group)

    async def bootstrap() -> None:
        pass

    consumer._client.bootstrap = bootstrap
    await consumer.start()
    return consumer


def needed_by(name: str) -> str:
    """The functions of the module that use an attribute, for the text of a failure."""
    users = [qualified for qualified, used in attributes_used().items() if name in used]
    return f"used in {aiokafka_internals.__name__} by {', '.join(users) or 'the module'}"


@cache
def attributes_used() -> dict[str, set[str]]:
    """The names of attributes in each function of the module."""
    return {
        qualified: {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
        for qualified, function in functions(TREE, "")
    }


def functions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node


def names_in(code: CodeType) -> set[str]:
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return {*code.co_names, *(name for each in inner for name in names_in(each))}


@pytest.mark.parametrize("part", PARTS, ids=IDS)
def test_a_part_is_used_by_the_module(part: Part) -> None:
    assert part.name == "__init__" or part.name in SOURCE, f"nothing needs {part.name} any more"


@pytest.mark.parametrize("part", PARTS, ids=IDS)
async def test_aiokafka_has_a_part_in_its_shape(part: Part, parts: dict[str, Any]) -> None:
    owner, needed = parts[part.owner], needed_by(part.name)
    subject = f"{INSTALLED}: {part.owner}.{part.name}"
    assert hasattr(owner, part.name), f"{subject} is gone; {needed}"
    value = getattr(owner, part.name)
    if isinstance(part.shape, str):
        parameters = list(inspect.signature(value).parameters)
        assert parameters == part.shape.split(), f"{subject} takes {parameters} now; {needed}"
    else:
        kind = type(value).__name__
        assert isinstance(value, part.shape), f"{subject} is of type {kind} now; {needed}"
    for reader in part.readers:
        assert part.name in names_in(reader.__code__), (
            f"{subject} is not used by {reader.__qualname__} any more; {needed}"
        )


def test_every_private_part_is_compared() -> None:
    """Every private attribute that the module uses is in the table above."""
    own = {
        node.attr
        for node in ast.walk(TREE)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    }
    used = {
        node.attr
        for node in ast.walk(TREE)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and ast.unparse(node.value) != "self"
    }
    elsewhere = {"_buffer"}  # of a batch in Python: see the test of its slices
    assert used - own - elsewhere <= {part.name for part in PARTS}


# Functions that the module replaces or repeats, by the digests of their text. The older sender also
# waits here for linger_ms, which is 0.
COPIED = (
    (AIOKafkaClient.bootstrap, "_Metadata.bootstrap", {"52f151c0bc21"}),
    (AIOKafkaClient._metadata_update, "_Metadata.update", {"2889705daf15"}),
    (Sender._send_produce_req, "LaneAccess._send", {"fc629ff7d5bf", "1de0cbdeb6e1"}),
    (MessageAccumulator.add_batch, "LaneAccess.append", {"62e4bf8ca618"}),
    (AIOKafkaProducer.send_batch, "LaneAccess.append", {"0ef0886e8a10"}),
)


@pytest.mark.parametrize(
    ("function", "ours", "digests"), COPIED, ids=[each[0].__qualname__ for each in COPIED]
)
def test_a_function_that_is_replaced_is_the_same(
    function: Callable[..., Any], ours: str, digests: set[str]
) -> None:
    text = re.sub(r"#.*|\s", "", inspect.getsource(function))
    present = hashlib.sha256(text.encode()).hexdigest()[:12]
    assert present in digests, (
        f"{INSTALLED}: {function.__qualname__} differs from the one that {ours} in "
        f"{aiokafka_internals.__name__} was written for: compare them, then add {present} here"
    )


async def test_the_connection_takes_the_settings_of_the_client() -> None:
    (call,) = [
        node
        for node in ast.walk(TREE)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "create_conn"
    ]
    given = {keyword.arg for keyword in call.keywords}
    taken = set(inspect.signature(create_conn).parameters)
    assert given <= taken, f"{INSTALLED}: create_conn lacks {given - taken}; see _connect"
    assert taken - given == {"host", "port", "on_close"}, (
        f"{INSTALLED}: create_conn takes {taken - given} that _connect does not give"
    )


async def test_metadata_requests_can_leave_topics_alone() -> None:
    MetadataRequest(["deals"], allow_auto_topic_creation=False)
    MetadataRequest([])


async def test_the_batch_takes_a_topic_id(parts: dict[str, Any]) -> None:
    parts["batch"].topic_id = b"id"


@pytest.mark.parametrize("ours", [Builder, SingleRecordBuilder])
def test_builders_have_the_interface_that_the_sender_uses(ours: type) -> None:
    """The methods of a builder that aiokafka calls once it has the batch."""
    tree = ast.parse(inspect.getsource(message_accumulator))
    called = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("_builder")
    }
    of_the_builder = called & {name for name, _ in inspect.getmembers(BatchBuilder)}
    assert of_the_builder - {"append"} <= set(dir(ours)), INSTALLED
    for name in {"close", "size", "_set_producer_state", "_build"} | of_the_builder - {"append"}:
        theirs = len(inspect.signature(getattr(BatchBuilder, name)).parameters)
        assert len(inspect.signature(getattr(ours, name)).parameters) == theirs, (INSTALLED, name)


async def test_the_position_is_where_the_consumer_was_sent(parts: dict[str, Any]) -> None:
    consumer = parts["consumer"]
    consumer.assign([TP])
    assert known_position(consumer, TP) is None
    consumer.seek(TP, 5)
    assert known_position(consumer, TP) == 5


def test_the_fetcher_looks_up_its_record_batches() -> None:
    readers = [
        name
        for name, function in inspect.getmembers(fetcher.Fetcher, inspect.isfunction)
        if "MemoryRecords" in names_in(function.__code__)
    ]
    assert readers, f"{INSTALLED}: Fetcher does not use MemoryRecords; see keep_header_names"


def test_the_encoder_compresses_with_the_given_function() -> None:
    calls = []

    def encode(data: Any) -> bytes:
        calls.append(data)
        return bytes(zstd_encode(data))

    replace_zstd(encode)
    try:
        encoder = CompiledEncoder(2, 4, 0, -1, -1, 0, 10_000)
        encoder.append(0, 1, b"k", b"v" * 1_000, [])
        encoder.build()
    finally:
        replace_zstd(zstd_encode)
    assert calls, f"{INSTALLED}: the encoder does not use zstd_encode; see replace_zstd"


async def test_slices_of_a_batch_in_python_can_be_replaced() -> None:
    encoder = CompiledEncoder(2, 0, 0, -1, -1, 0, 10_000)
    encoder.append(0, 1, b"k", b"v", [("name", b"")])
    built = bytes(encoder.build()).replace(b"name", b"n\xffme")
    batch, slow = default_records.DefaultRecordBatch(built), default_records._DefaultRecordBatchPy
    lenient = aiokafka_internals._Batch(batch, memoryview(built), slow)
    (record,) = list(lenient)
    assert record.headers == [("n\udcffme", b"")], f"{INSTALLED}: see _Batch"


async def test_every_client_of_the_module_has_its_metadata_requests() -> None:
    access = ClusterAccess(SERVERS)
    client, producer = open_client(access), open_producer(access)
    admin, consumer = open_admin(access), open_consumer(access)
    try:
        for each in (client, producer.client, client_of(admin), client_of(consumer)):
            for replaced in (each.bootstrap, each._metadata_update):
                assert type(replaced.__self__) is aiokafka_internals._Metadata
    finally:
        await drop_client(client)
        await drop_producer(producer)
        await drop_consumer(consumer)
        await drop_admin(admin)
