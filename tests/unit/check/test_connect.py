"""The fix for a cluster that does not answer fits the cause."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest
import redis.exceptions
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from headgate.check import connect
from headgate.check.connect import _redis_fix, connection_fix
from headgate.config.backend_settings import ClusterSettings, RedisSettings
from headgate.errors_in_words import connection_error
from headgate.kafka.access import NoTokenError

OFFERED = "x. Enabled mechanisms are: ['PLAIN']"
WRONG_VERSION = ssl.SSLError(1, "wrong version number")
WRONG_VERSION.reason = "WRONG_VERSION_NUMBER"


def cluster(protocol: str, mechanism: str | None = "SCRAM-SHA-512") -> ClusterSettings:
    return ClusterSettings(
        ("h:1",),
        security_protocol=protocol,
        sasl_mechanism=mechanism if "SASL" in protocol else None,
    )


@pytest.mark.parametrize(
    ("error", "protocol", "parts"),
    [
        (SaslAuthenticationFailed("x"), "SASL_SSL", ("sasl_username", "sasl_password_file")),
        (NoTokenError("x"), "SASL_SSL", ("sasl_oauth_token_url",)),
        (
            UnsupportedSaslMechanismError(object()), "SASL_SSL",
            ("clusters.main.sasl_mechanism, which is SCRAM-SHA-512",),
        ),
        (UnsupportedSaslMechanismError(OFFERED), "SASL_SSL", ("to one of 'PLAIN'",)),
        (
            IllegalSaslStateError(object()), "SASL_PLAINTEXT",
            ("takes no SASL", "security_protocol to PLAINTEXT"),
        ),
        (WRONG_VERSION, "SSL", ("may not speak TLS", "security_protocol to PLAINTEXT")),
        (
            ConnectionResetError(), "SASL_SSL",
            ("may not speak TLS", "security_protocol to SASL_PLAINTEXT"),
        ),
        (ConnectionResetError(), "PLAINTEXT", ("may expect TLS", "it is SSL")),
        (ssl.SSLCertVerificationError("x"), "SSL", ("clusters.main.ssl_cafile",)),
        (socket.gaierror(-2, "x"), "SSL", ("host name in clusters.main.bootstrap_servers",)),
        (TimeoutError(), "SSL", ("the network", "which is SSL")),
    ],
)  # fmt: skip
def test_the_fix_fits_the_cause(error: Exception, protocol: str, parts: tuple[str, ...]) -> None:
    fix = connection_fix(error, "main", cluster(protocol))
    assert not [part for part in parts if part not in fix], fix


def test_servers_that_fail_in_two_ways_have_two_fixes() -> None:
    failure = KafkaConnectionError("no bootstrap server answers")
    causes = [socket.gaierror(-2, "x"), SaslAuthenticationFailed("x"), socket.gaierror(-2, "x")]
    failure.__cause__ = ExceptionGroup("x", causes)
    fix = connection_fix(failure, "main", cluster("SASL_SSL"))
    assert fix.count("bootstrap_servers") == 1
    assert "sasl_username" in fix


@pytest.mark.parametrize(
    ("error", "ca_file", "part"),
    [
        (ssl.SSLCertVerificationError("x"), None, "Set redis.ssl_cafile, which is not set, to"),
        (ssl.SSLCertVerificationError("x"), "/ca.pem", "Set redis.ssl_cafile, which is /ca.pem,"),
        (redis.exceptions.ConnectionError("Connection closed by server."), None, "such as Kafka"),
        (ConnectionResetError(), None, "such as Kafka"),
        (redis.exceptions.AuthenticationError("WRONGPASS"), None, "the user and the password"),
        (TimeoutError(), None, "Check its URL"),
        (redis.exceptions.InvalidResponse('got "H"'), None, "such as an HTTP server"),
    ],
)
def test_the_fix_for_redis_fits_the_cause(error: Exception, ca_file: str | None, part: str) -> None:
    assert part in _redis_fix(error, ca_file)


async def test_a_redis_that_waits_while_the_client_waits_for_tls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connect, "_MIN_REDIS_S", 0.2)
    words = await said_of("rediss", b"")
    assert "it may not speak TLS" in words
    assert "Use redis:// if Redis has no TLS" in words


async def test_an_http_server_at_the_address_of_redis() -> None:
    words = await said_of("redis", b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert "it does not speak the protocol of Redis; correct the port" in words
    assert "type byte" not in words


async def said_of(scheme: str, answer: bytes) -> str:
    """Return the finding of the check about a server that sends these bytes, or is silent."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        if answer:
            writer.write(answer)
            await writer.drain()
        else:
            await over.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        settings = RedisSettings(url=f"{scheme}://127.0.0.1:{port}", timeout_ms=10)
        (finding,) = await connect._check_redis(settings)
        over.set()
    return f"{finding.text} {finding.fix}"


def test_a_login_at_a_listener_without_sasl_is_in_words() -> None:
    words = connection_error(IllegalSaslStateError(object()))
    assert words.startswith("security_protocol has SASL, but the listener takes no SASL login")
