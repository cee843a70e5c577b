"""Access to clusters: addresses, credentials, and the arguments of aiokafka's clients."""

import asyncio
import base64
import json
import ssl
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode

from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaConnectionError, TopicAlreadyExistsError, for_code

from headgate.errors_in_words import (
    FileTrouble,
    PemFile,
    authorities_trouble,
    key_pair_trouble,
    no_password,
)
from headgate.model.internal_topics import InternalTopic
from headgate.model.text import masked, without_secrets

# ---- tokens for SASL/OAUTHBEARER, by OAuth's client credentials grant (RFC 6749, 4.4)


_TIMEOUT_S = 10.0
_MAX_BYTES = 65_536
_LASTS_S = 300.0  # lifetime of a token if its issuer does not return one
_USED_FOR = 0.8  # part of its lifetime, as Java's sasl.login.refresh.window.factor


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """Credentials for the token endpoint; `ca_file` is PEM, None for the system's authorities."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    ca_file: str | None = None


class NoTokenError(KafkaConnectionError):  # type: ignore[misc]
    """A token endpoint that returns no token."""


class TlsFileError(OSError):
    """A file of certificates or keys that cannot be used."""


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]
    """Cache of a client's token, which is used for most of its lifetime."""

    def __init__(self, client: OAuthClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._token = ""
        self._used_until = float("-inf")
        self._asking = asyncio.Lock()

    async def token(self) -> str:
        """Return a token. Raises NoTokenError, after which aiokafka retries later."""
        async with self._asking:
            if self._clock() >= self._used_until:
                asked_at = self._clock()
                self._token, lasts_s = await asyncio.to_thread(_ask, self._client)
                self._used_until = asked_at + lasts_s * _USED_FOR
            return self._token


class _Stay(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirects, so that a secret goes only to its endpoint."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _ask(client: OAuthClient) -> tuple[str, float]:
    """Request a token; return it and its lifetime in seconds."""
    pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
    form = {"grant_type": "client_credentials"}
    if client.scope is not None:
        form["scope"] = client.scope
    request = urllib.request.Request(
        client.token_url,
        urlencode(form).encode(),
        {
            "Authorization": "Basic " + base64.b64encode(pair.encode()).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        },
    )
    shown = masked(client.token_url)
    try:
        context = ssl.create_default_context(cafile=client.ca_file)
        opener = urllib.request.build_opener(_Stay, urllib.request.HTTPSHandler(context=context))
        with opener.open(request, timeout=_TIMEOUT_S) as answer:
            return _read(json.loads(answer.read(_MAX_BYTES)))
    except HTTPError as error:
        error.close()
        detail = f"no token from {shown}: it answered {error.code}"
        raise NoTokenError(detail) from None
    except (OSError, HTTPException, ValueError, TypeError) as error:
        why = without_secrets(str(error))
        if client.ca_file is not None:
            why = str(authorities_trouble(PemFile("sasl_oauth_ca_file", client.ca_file)) or why)
        detail = f"no token from {shown}: {why}"
        raise NoTokenError(detail) from None


def _read(answer: Mapping[str, Any]) -> tuple[str, float]:
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
        raise ValueError("the answer has no access_token")
    return token, float(answer.get("expires_in", _LASTS_S))


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The way to one Kafka cluster.

    Attributes:
        bootstrap_servers: `host:port[,host:port...]`.
        security_protocol: Kafka's security.protocol.
        sasl_mechanism: The mechanism; aiokafka needs one even for a protocol without SASL.
        sasl_username: The user.
        sasl_password: The password.
        ssl_cafile: PEM file, read when a client is created.
        ssl_certfile: PEM file, read when a client is created.
        ssl_keyfile: PEM file, read when a client is created.
        oauth: The credentials for the mechanism OAUTHBEARER.
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
        raise TlsFileError(str(_trouble(access) or error)) from error
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


async def create_topics(admin: AIOKafkaAdminClient, topics: Iterable[InternalTopic]) -> None:
    """Create topics; ignore those that exist already. Raises KafkaError."""
    wanted = [
        NewTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            topic_configs=dict(topic.configs),
        )
        for topic in topics
    ]
    if not wanted:
        return
    answer = await admin.create_topics(wanted)
    # The response has a code for each topic and is not an error by itself.
    for name, code, *rest in answer.topic_errors:
        refusal = for_code(code)
        if code and refusal is not TopicAlreadyExistsError:
            raise refusal(f"topic {name} cannot be created: {rest}")
