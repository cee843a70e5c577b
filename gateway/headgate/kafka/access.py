"""How a cluster is reached, and what aiokafka's clients are told of it."""

import ssl
from dataclasses import dataclass, field
from typing import Any

from headgate.errors_in_words import (
    FileTrouble,
    PemFile,
    authorities_trouble,
    key_pair_trouble,
    no_password,
)
from headgate.kafka.oauth import ClientCredentials, OAuthClient


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The way to one Kafka cluster.

    bootstrap_servers: `host:port[,host:port...]`.  sasl_mechanism: aiokafka wants one even where
    the protocol has no SASL.  ssl_cafile, ssl_certfile, ssl_keyfile: PEM, read where a client is
    made.  oauth: for the mechanism OAUTHBEARER.
    """

    bootstrap_servers: str
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    oauth: OAuthClient | None = None


def client_arguments(access: ClusterAccess) -> dict[str, Any]:
    """Return the arguments that every aiokafka client of this cluster takes."""
    oauth = access.oauth
    return {
        "bootstrap_servers": access.bootstrap_servers,
        "security_protocol": access.security_protocol,
        "ssl_context": _ssl_context(access),
        "sasl_mechanism": access.sasl_mechanism,
        "sasl_plain_username": access.sasl_username,
        "sasl_plain_password": access.sasl_password,
        "sasl_oauth_token_provider": None if oauth is None else ClientCredentials(oauth),
    }


def _ssl_context(access: ClusterAccess) -> ssl.SSLContext | None:
    if "SSL" not in access.security_protocol.split("_"):
        return None
    try:
        context = ssl.create_default_context(cafile=access.ssl_cafile)
        if access.ssl_certfile:
            context.load_cert_chain(access.ssl_certfile, access.ssl_keyfile, password=no_password)
    except OSError as error:
        raise OSError(str(_trouble(access) or error)) from error
    return context


def _trouble(access: ClusterAccess) -> FileTrouble | None:
    if access.ssl_cafile is not None:
        trouble = authorities_trouble(PemFile("ssl_cafile", access.ssl_cafile))
        if trouble is not None:
            return trouble
    if access.ssl_certfile is None or access.ssl_keyfile is None:
        return None
    certificate = PemFile("ssl_certfile", access.ssl_certfile)
    return key_pair_trouble(certificate, PemFile("ssl_keyfile", access.ssl_keyfile))
