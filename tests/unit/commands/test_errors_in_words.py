"""Errors of files and connections, made by real files and sockets, are sentences with a fix."""

from __future__ import annotations

import asyncio
import errno
import http.client
import os
import re
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from aiokafka.errors import KafkaConnectionError, UnknownTopicOrPartitionError
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError

import headgate
from headgate.errors_in_words import cause, connection_error, file_error, listen_option
from support.identity.authority import Authority

NOT_FOR_PEOPLE = ("Errno", "('", "urlopen", "Error", "_ssl.c", "Errno", "codec")


def readable(text: str) -> str:
    assert text
    assert not [part for part in NOT_FOR_PEOPLE if part in text], text
    return text


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def failed(url: str, context: ssl.SSLContext | None = None) -> str:
    with pytest.raises((OSError, http.client.HTTPException)) as caught:
        urllib.request.urlopen(url, timeout=10, context=context)
    return readable(connection_error(caught.value))


def test_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        (tmp_path / "missing").read_text()
    assert readable(file_error(missing.value)) == "the file does not exist"
    with pytest.raises(IsADirectoryError) as folder:
        tmp_path.read_text()
    assert "folder" in readable(file_error(folder.value))
    (tmp_path / "binary").write_bytes(b"a\xff")
    with pytest.raises(UnicodeDecodeError) as binary:
        (tmp_path / "binary").read_text(encoding="utf-8")
    assert "UTF-8 (byte 1)" in readable(file_error(binary.value))
    assert "permission" in readable(file_error(PermissionError(13, os.strerror(13))))


def test_refused_connection_is_explained() -> None:
    assert "nothing listens there" in failed(f"http://127.0.0.1:{closed_port()}")


async def test_nothing_listens_on_either_address_of_a_host() -> None:
    port = closed_port()
    error = OSError(  # as asyncio reports `localhost` if it has an IPv4 and an IPv6 address
        f"Multiple exceptions: [Errno 111] Connect call failed ('::1', {port}, 0, 0), "
        f"[Errno 111] Connect call failed ('127.0.0.1', {port})"
    )
    assert "nothing listens there" in readable(connection_error(error))
    with pytest.raises(ConnectionRefusedError) as caught:
        await asyncio.open_connection("127.0.0.1", port)
    assert "nothing listens there" in readable(connection_error(caught.value))


@pytest.mark.parametrize("kind", [ssl.SSLError, ssl.SSLCertVerificationError])
def test_errors_of_tls_that_python_code_made(kind: type[ssl.SSLError]) -> None:
    """OpenSSL sets `reason` and `verify_message`; errors that Python code makes have neither."""
    assert not hasattr(kind("x"), "reason")
    assert readable(connection_error(kind("x")))
    assert readable(cause(kind("x")))


def test_the_host_is_unknown() -> None:
    assert "host name is unknown" in failed("http://no-such-host.invalid")


async def one_answer(answer: bytes, url: str) -> str:
    """What is said of a server that sends these bytes and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        return await asyncio.to_thread(failed, url.format(port))


async def test_https_on_a_port_without_tls() -> None:
    said = await one_answer(b"HTTP/1.1 400 Bad Request\r\n\r\n", "https://127.0.0.1:{}")
    assert "does not speak TLS" in said


async def test_http_on_a_port_with_another_protocol() -> None:
    assert "does not speak HTTP" in await one_answer(b"-ERR unknown\r\n", "http://127.0.0.1:{}")
    assert "closed the connection" in await one_answer(b"", "http://127.0.0.1:{}")


async def test_a_certificate_of_an_unknown_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0,
                                        ssl=context)  # fmt: skip
    async with server:
        port = server.sockets[0].getsockname()[1]
        said = await asyncio.to_thread(
            failed, f"https://127.0.0.1:{port}", ssl.create_default_context()
        )
    assert "certificate is not trusted" in said


async def test_redis_that_does_not_listen() -> None:
    client = Redis.from_url(f"redis://127.0.0.1:{closed_port()}/0", retry=Retry(NoBackoff(), 0))
    with pytest.raises(RedisError) as caught:
        await client.ping()
    await client.aclose()
    assert "nothing listens there" in readable(connection_error(caught.value))


class Connection:
    """An object that an exception holds instead of a message."""

    def __repr__(self) -> str:
        return "<Connection at 0x7f>"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionResetError(), "the other side closed the connection"),
        (BrokenPipeError(), "the other side closed the connection"),
        (asyncio.IncompleteReadError(b"", 4), "the other side closed the connection"),
        (EOFError(), "the other side closed the connection"),
        (TimeoutError(), "it does not answer in time"),
        (ConnectionRefusedError(), "nothing listens there"),
        (KafkaConnectionError(Connection()), "no connection"),
        (KafkaConnectionError("no broker"), "no broker"),
        (UnknownTopicOrPartitionError(), "UNKNOWN_TOPIC_OR_PARTITION"),
        (ValueError(Connection()), "without a message (value)"),
        (NotImplementedError(), "without a message (not implemented)"),
        (RuntimeError(), "without a message (runtime)"),
        (AuthenticationError("invalid username-password pair or user is disabled."), "invalid"),
        (ResponseError("WRONGPASS invalid username-password pair"), "WRONGPASS"),
    ],
)
def test_an_error_without_a_message_has_a_sentence(error: BaseException, said: str) -> None:
    text = readable(connection_error(error))
    assert said in text
    assert "<" not in text


def test_a_wrong_address_names_the_host() -> None:
    absent = OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    assert listen_option(absent, "http.host", "http.port") == "http.host"
    taken = OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    assert listen_option(taken, "http.host", "http.port") == "http.port"


@pytest.mark.parametrize("room", ["blobs", "kafka", "monitor", "redis", "supervisor", "wiring"])
def test_texts_have_no_repr_of_an_error(room: str) -> None:
    reprs = re.compile(r"""%r", [^)]*\b(error|failure|answer)\)|(error|failure)!r|repr\(error\)""")
    for file in Path(headgate.__file__).parent.joinpath(room).glob("*.py"):
        match = reprs.search(file.read_text())
        assert match is None, f"{file.name}: {match}"
