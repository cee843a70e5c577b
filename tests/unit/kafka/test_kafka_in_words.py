"""Why a cluster does not answer, in words that clients may see: the cause and its option."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    NoBrokersAvailable,
    NodeNotReadyError,
    NotLeaderForPartitionError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)

from headgate.kafka import topics
from headgate.kafka.access import NoTokenError
from headgate.kafka.options import ClusterOptions
from headgate.kafka.topics import READ_ERRORS, KafkaTopics, TopicReader, kafka_in_words
from headgate.model.outcome import Reason
from support.identity.authority import Authority

LOOPBACK = "127.0.0.1"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def words_of(*servers: str, **options: str | None) -> str:
    """The words about a cluster with these bootstrap servers that cannot be read."""
    reader = TopicReader("main", ClusterOptions(",".join(servers), **options))  # type: ignore[arg-type]
    try:
        with pytest.raises(READ_ERRORS) as caught:
            await reader.read(lambda _: True, {})
    finally:
        await reader.close()
    words = kafka_in_words(caught.value, "main")
    assert not re.search(r"\d{2,}|invalid\b|Error", words), f"no address, no class: {words}"
    return words


def closed_port() -> str:
    with socket.create_server((LOOPBACK, 0)) as server:
        return f"{LOOPBACK}:{server.getsockname()[1]}"


@asynccontextmanager
async def server(serve: Serve, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    handlers = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.append(asyncio.current_task())
        with suppress(OSError):
            await serve(reader, writer)
            writer.close()
            await writer.wait_closed()

    running = await asyncio.start_server(handle, LOOPBACK, 0, ssl=context)
    async with running:
        yield f"{LOOPBACK}:{running.sockets[0].getsockname()[1]}"
        await asyncio.gather(*filter(None, handlers))


async def close_soon(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read(10)


async def stay_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def say_no_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    writer.write(b"this is no TLS\r\n")
    await writer.drain()


async def test_closed_port_of_kafka_is_explained() -> None:
    assert await words_of(closed_port()) == (
        "nothing listens there (see clusters.main.bootstrap_servers)"
    )


async def test_the_name_is_unknown() -> None:
    assert await words_of("no-such-host.invalid:9092") == (
        "the host name is unknown (see clusters.main.bootstrap_servers)"
    )


async def test_servers_with_different_faults() -> None:
    """In the same order, in whichever order they are tried: a changed text is logged again."""
    assert await words_of("no-such-host.invalid:9092", closed_port(), closed_port()) == (
        "nothing listens there (see clusters.main.bootstrap_servers), "
        "the host name is unknown (see clusters.main.bootstrap_servers)"
    )


async def test_a_black_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "ANSWER_TIMEOUT_MS", 200)
    async with server(stay_silent) as address:
        words = await words_of(address)
    assert words == "it does not answer in time (see clusters.main.bootstrap_servers)"


async def test_plain_text_to_a_listener_that_closes_it() -> None:
    async with server(close_soon) as address:
        words = await words_of(address)
    assert words == "the other side closed the connection (see clusters.main.security_protocol)"


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_tls_to_a_listener_without_it() -> None:
    async with server(say_no_tls) as address:
        words = await words_of(address, security_protocol="SSL")
    gc.collect()
    assert words == "it does not speak TLS (see clusters.main.security_protocol)"


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("is_known", [False, True])
async def test_a_certificate_that_is_not_trusted(tmp_path: Path, is_known: bool) -> None:
    """Of an unknown authority, or for another name: the name may be an address."""
    authority = Authority(tmp_path)
    pair = authority.issue("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    cafile = str(authority.file) if is_known else None
    async with server(close_soon, context) as address:
        host = "localhost" if is_known else LOOPBACK
        there = f"{host}:{address.partition(':')[2]}"
        words = await words_of(there, security_protocol="SSL", ssl_cafile=cafile)
    gc.collect()
    assert words.startswith("its certificate is not trusted: ")
    assert words.endswith(" (see clusters.main.ssl_cafile)")
    assert ("hostname mismatch" in words) == is_known


async def test_a_file_that_is_missing(tmp_path: Path) -> None:
    words = await words_of(
        closed_port(), security_protocol="SSL", ssl_cafile=str(tmp_path / "none.pem")
    )
    assert words == "a file for TLS cannot be used (see clusters.main.ssl_cafile)"


async def test_the_answer_to_an_event_has_the_cause() -> None:
    known = KafkaTopics({"main": ClusterOptions(closed_port())}, 10_000)
    await known.start(lambda _: "main")
    try:
        failure = known.missing_reason("orders")
    finally:
        await known.close()
    assert failure.reason is Reason.KAFKA_UNAVAILABLE
    assert failure.detail == (
        "cluster main has not answered since the start: nothing listens there "
        "(see clusters.main.bootstrap_servers)"
    )


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            SaslAuthenticationFailed("x"),
            "the credentials are refused (see clusters.c.sasl_username)",
        ),
        (
            IllegalSaslStateError(),
            "the listener takes no SASL (see clusters.c.security_protocol)",
        ),
        (
            UnsupportedSaslMechanismError("x"),
            "it does not offer this SASL mechanism (see clusters.c.sasl_mechanism)",
        ),
        (
            NoTokenError("no token from https://issuer: it answered 401"),
            "the token endpoint returns no token (see clusters.c.sasl_oauth_token_url)",
        ),
        (
            TopicAuthorizationFailedError("orders"),
            "the user is not authorised: TOPIC_AUTHORIZATION_FAILED (see clusters.c.sasl_username)",
        ),
        (NotLeaderForPartitionError(), "NOT_LEADER_FOR_PARTITION"),
        (TimeoutError(), "it does not answer in time (see clusters.c.bootstrap_servers)"),
        (NodeNotReadyError("node 1"), "no connection (see clusters.c.bootstrap_servers)"),
        (KafkaConnectionError("at 10.0.0.1:9"), "no connection (see clusters.c.bootstrap_servers)"),
        (NoBrokersAvailable(), "the cluster names no broker (see clusters.c.bootstrap_servers)"),
        (ValueError("x"), "the answer cannot be used"),
    ],
)
def test_errors_of_an_answer(error: Exception, words: str) -> None:
    assert kafka_in_words(error, "c") == words
