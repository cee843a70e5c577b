"""Tokens for Kafka's SASL/OAUTHBEARER, by OAuth's client credentials grant (RFC 6749, 4.4)."""

import asyncio
import base64
import json
import ssl
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError

from headgate.core.secrets import masked, without_secrets
from headgate.errors_in_words import PemFile, authorities_trouble

_TIMEOUT_S = 10.0
_MAX_BYTES = 65_536
_LASTS_S = 300.0  # a token of which its issuer does not say how long
_USED_FOR = 0.8  # of its life, as Java's sasl.login.refresh.window.factor


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """Who asks where for a token. ca_file: PEM; None = the system's authorities."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    ca_file: str | None = None


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]
    """One client's token, which is used until most of its life is over."""

    def __init__(self, client: OAuthClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._token = ""
        self._used_until = float("-inf")
        self._asking = asyncio.Lock()

    async def token(self) -> str:
        """Raises KafkaConnectionError, on which aiokafka tries again later."""
        async with self._asking:
            if self._clock() >= self._used_until:
                asked = self._clock()
                self._token, lasts_s = await asyncio.to_thread(_ask, self._client)
                self._used_until = asked + lasts_s * _USED_FOR
            return self._token


class _Stay(urllib.request.HTTPRedirectHandler):
    """A secret goes nowhere but where it was meant for."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _ask(client: OAuthClient) -> tuple[str, float]:
    """The token, and its seconds to live."""
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
        raise KafkaConnectionError(detail) from None
    except (OSError, HTTPException, ValueError, TypeError) as error:
        why = without_secrets(str(error))
        if client.ca_file is not None:
            why = str(authorities_trouble(PemFile("sasl_oauth_ca_file", client.ca_file)) or why)
        detail = f"no token from {shown}: {why}"
        raise KafkaConnectionError(detail) from None


def _read(answer: Mapping[str, Any]) -> tuple[str, float]:
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
        raise ValueError("the answer has no access_token")
    return token, float(answer.get("expires_in", _LASTS_S))
