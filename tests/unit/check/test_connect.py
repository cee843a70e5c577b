"""The fix for a cluster that does not answer fits the cause."""

from __future__ import annotations

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

from headgate.check.connect import _redis_fix, connection_fix
from headgate.config.backend_settings import ClusterSettings
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
    ],
)
def test_the_fix_for_redis_fits_the_cause(error: Exception, ca_file: str | None, part: str) -> None:
    assert part in _redis_fix(error, ca_file)


def test_a_login_at_a_listener_without_sasl_is_in_words() -> None:
    words = connection_error(IllegalSaslStateError(object()))
    assert words.startswith("security_protocol has SASL, but the listener takes no SASL login")
