"""An issuer of signed tokens: its keys, its tokens, and a real server of both."""

from __future__ import annotations

import base64
import hmac
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote_plus

from joserfc import jws
from joserfc.jwk import Key, KeySet, generate_key

from headgate.config.settings import AuthSettings
from headgate.devstack.ports import LOOPBACK
from support.identity.authority import Pair

ISSUER, AUDIENCE = "https://id.example", "headgate"
# Of an algorithm's first letters: what its keys are.
_KINDS: Mapping[str, tuple[Any, Any]] = {
    "RS": ("RSA", 2048),
    "PS": ("RSA", 2048),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}


def signed(header: Mapping[str, Any], claims: object, key: Key | bytes) -> str:
    """A token with just this header and these claims, good or not. key: bytes for HMAC."""
    parts = [json.dumps(part).encode() for part in (header, claims)]
    text = b".".join(map(_encoded, parts))
    if isinstance(key, bytes):
        signature = hmac.digest(key, text, f"sha{header['alg'][2:]}")
    else:
        signature = jws.JWSRegistry.algorithms[header["alg"]].sign(text, key)
    return b".".join((text, _encoded(signature))).decode()


def _encoded(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")


class Issuer:
    """keys: those that its document has, by their names."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[str, Key]] = {}

    def add(self, key_id: str, algorithm: str = "ES256") -> None:
        """Another key."""
        kind, size = next(_KINDS[one] for one in (algorithm, algorithm[:2]) if one in _KINDS)
        self.keys[key_id] = algorithm, generate_key(kind, size, {"kid": key_id})

    def token(self, key_id: str, /, **claims: object) -> str:
        """Signed with this key, with what a good token has and these claims. None: without it."""
        algorithm, key = self.keys[key_id]
        usual = {"iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 600}
        said = {name: one for name, one in {**usual, **claims}.items() if one is not None}
        return signed({"alg": algorithm, "kid": key_id}, said, key)

    def document(self) -> bytes:
        """The JWK Set."""
        keys = KeySet([key for _, key in self.keys.values()])
        return json.dumps(keys.as_dict(private=False)).encode()


class JwksServer:
    """Serves an issuer's keys, and tokens to one client (OAuth's client credentials).

    asked: how often for keys.  body, status: what is answered, None = keys.  tokens: the forms
    with which tokens were asked for.  lasts_s: how long they last.
    """

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer
        self.asked = 0
        self.status = 200
        self.body: bytes | None = None
        self.headers: dict[str, str] = {}
        self.url = self.token_url = ""
        self.client, self.secret = "headgate", "s3cret&=:ü"
        self.tokens: list[dict[str, list[str]]] = []
        self.lasts_s = 600
        self.claims: dict[str, Any] = {"sub": "gate"}

    def grant(self, authorization: str, form: bytes) -> tuple[int, Any]:
        self.tokens.append(parse_qs(form.decode()))
        pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        name, _, secret = map(unquote_plus, pair.partition(":"))
        if (name, secret) != (self.client, self.secret):
            return 401, {"error": "invalid_client"}
        now = int(time.time())
        said = {"iat": now, "exp": now + self.lasts_s, **self.claims}
        token = self._issuer.token(next(iter(self._issuer.keys)), **said)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.lasts_s}

    def answer(self) -> bytes:
        self.asked += 1
        return self._issuer.document() if self.body is None else self.body


@contextmanager
def serving(issuer: Issuer, pair: Pair | None = None) -> Iterator[JwksServer]:
    """Until the block ends. pair: with TLS, and this certificate."""
    found = JwksServer(issuer)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = found.answer()
            self.send_response(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"]))
            status, page = found.grant(self.headers["Authorization"], form)
            body = json.dumps(page).encode()
            self.send_response(found.status if found.status != 200 else status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server, scheme = ThreadingHTTPServer((LOOPBACK, 0), Handler), "http"
    if pair is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    thread = Thread(target=server.serve_forever)
    thread.start()
    found.url, found.token_url = (
        f"{scheme}://{LOOPBACK}:{server.server_address[1]}/{path}" for path in ("keys", "token")
    )
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def settings(url: str, **more: Any) -> AuthSettings:
    """Of a gateway that takes this issuer's tokens."""
    needed = {"jwt_issuer": ISSUER, "jwt_audience": (AUDIENCE,), "jwt_jwks_url": url}
    return AuthSettings(**{"mode": ("jwt",), **needed, **more})
