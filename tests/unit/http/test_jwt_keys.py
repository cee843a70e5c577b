"""Which keys of an issuer's document are used, and how they come and go."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from joserfc.jwk import RSAKey

from headgate.http.auth import Claims
from headgate.http.jwt import FAILED, FETCHED, BadKeysError, CheckedTokens, FetchedKeys, read_keys
from headgate.model.outcome import Failure, Reason
from support.identity.authority import Authority
from support.identity.issuer import Issuer, JwksServer, serving, settings
from support.process.stack import eventually

BOTH = ("ES256", "RS256")


def document(*algorithms: str, **more: object) -> Any:
    issuer = Issuer()
    for algorithm in algorithms:
        issuer.add(algorithm, algorithm)
    found = json.loads(issuer.document())
    for key in found["keys"]:
        key.update(more)
    return found


NO_KEYS = (b"", b"[]", b"{}", b'{"keys":{}}', b'{"keys":[]}', b"\xff", b'{"keys":[1,null,{}]}')


@pytest.mark.parametrize("text", [*NO_KEYS, b'{"keys":[{"kty":"RSA"}]}'])
def test_what_has_no_key_is_no_key_set(text: bytes) -> None:
    with pytest.raises(BadKeysError):
        read_keys(text, BOTH)


def test_a_bad_key_does_not_take_the_others_with_it() -> None:
    good = document("ES256")
    good["keys"] += [{"kty": "EC", "crv": "P-256", "x": "!", "y": "?", "kid": "bad"}, {"kty": "X"}]
    keys = read_keys(json.dumps(good).encode(), BOTH)
    assert keys.find("ES256", "ES256") is not None
    assert keys.find("bad", "ES256") is None


@pytest.mark.parametrize("more", [{"use": "enc"}, {"alg": "ES384"}, {"alg": "HS256"}, {"kid": 1}])
def test_a_key_for_something_else_is_not_used(more: dict[str, object]) -> None:
    with pytest.raises(BadKeysError):
        read_keys(json.dumps(document("ES256", **more)).encode(), BOTH)


def test_a_secret_in_the_document_is_no_key() -> None:
    secret = {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA", "kid": "s"}
    with pytest.raises(BadKeysError):
        read_keys(json.dumps({"keys": [secret]}).encode(), BOTH)


@pytest.mark.filterwarnings("ignore:Key size should be")
def test_a_short_key_is_not_used() -> None:
    short = RSAKey(generate_private_key(65537, 1024), None).as_dict(private=False)
    with pytest.raises(BadKeysError):
        read_keys(json.dumps({"keys": [{**short, "kid": "short"}]}).encode(), BOTH)


def test_a_token_that_names_no_key_means_the_only_one() -> None:
    assert read_keys(json.dumps(document("ES256", "RS256")).encode(), BOTH).find(None, "RS256")
    issuer = Issuer()
    issuer.add("a")
    issuer.add("b")
    assert read_keys(issuer.document(), BOTH).find(None, "ES256") is None


class World:
    """A gateway's keys and tokens, and the issuer with its server."""

    def __init__(self, issuer: Issuer, server: JwksServer, **more: Any) -> None:
        self.issuer = issuer
        self.server = server
        self.now = time.time()
        self.said: list[str] = []
        auth = settings(server.url, **more)
        self.keys = FetchedKeys(auth, self.said.append, lambda: self.now)
        self.tokens = CheckedTokens(auth, self.keys, lambda: self.now)

    def check(self, key_id: str) -> Claims | Reason:
        token = self.issuer.token(key_id, sub="shop", exp=int(self.now) + 600)
        found = self.tokens.check(token.encode())
        return found.reason if isinstance(found, Failure) else found

    def is_good(self, key_id: str) -> bool:
        return isinstance(self.check(key_id), Claims)


@asynccontextmanager
async def running(**more: Any) -> AsyncIterator[World]:
    issuer = Issuer()
    issuer.add("one")
    with serving(issuer) as server:
        world = World(issuer, server, **more)
        task = asyncio.create_task(world.keys.run())
        try:
            await world.keys.first.wait()
            yield world
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_a_new_key_is_fetched_when_a_token_names_it() -> None:
    async with running(jwt_unknown_key_ms=100) as world:
        assert world.is_good("one")
        world.issuer.add("two")
        await eventually(lambda: world.is_good("two"))
        assert world.is_good("one")
        assert world.keys.generation == 0, "no key was taken away"


async def test_no_secret_of_the_address_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "headgate.http.jwt")
    auth = settings("http://ann:hush@127.0.0.1:1/?key=hush")
    await FetchedKeys(auth, lambda _: None, time.time).fetch()
    (said,) = caplog.records
    assert vars(said)["url"] == "http://ann:***@127.0.0.1:1/?key=***"
    assert "hush" not in str(vars(said))


async def test_until_it_is_fetched_a_client_is_told_to_try_again() -> None:
    async with running(jwt_unknown_key_ms=100) as world:
        world.issuer.add("two")
        await eventually(lambda: world.check("two") is Reason.ISSUER_UNAVAILABLE)
        del world.issuer.keys["two"]


async def test_strange_keys_do_not_make_us_ask_all_the_time() -> None:
    async with running(jwt_unknown_key_ms=86_400_000) as world:
        world.issuer.add("two")
        for _ in range(100):
            assert world.check("two") is Reason.UNAUTHENTICATED
            await asyncio.sleep(0)
        assert world.server.asked == 1


async def test_a_key_that_was_asked_for_in_vain_is_refused_for_good() -> None:
    async with running(jwt_unknown_key_ms=100) as world:
        world.issuer.add("two")
        kept = world.issuer.keys.pop("two")
        world.server.asked = 0

        def check() -> Claims | Reason:
            world.issuer.keys["two"] = kept  # to sign with
            try:
                return world.check("two")
            finally:
                del world.issuer.keys["two"]

        await eventually(lambda: check() is Reason.UNAUTHENTICATED and world.server.asked)
        for _ in range(3):
            asked = world.server.asked
            await eventually(lambda asked=asked: check() and world.server.asked > asked)
            assert check() is Reason.UNAUTHENTICATED
        world.issuer.keys["two"] = kept
        await eventually(lambda: world.is_good("two"))  # it may still come


async def test_a_key_that_is_gone_is_not_valid_any_more() -> None:
    async with running(jwt_refresh_ms=1_000) as world:
        world.issuer.add("two")
        await eventually(lambda: world.is_good("two"))
        kept = world.issuer.keys.pop("one")
        await eventually(lambda: world.keys.generation == 1)
        world.issuer.keys["one"] = kept  # to sign with; not fetched within the next second
        assert world.check("one") in (Reason.UNAUTHENTICATED, Reason.ISSUER_UNAVAILABLE)
        assert world.is_good("two")


async def test_an_issuer_that_is_away_leaves_its_keys_in_force_for_a_while() -> None:
    async with running(jwt_refresh_ms=1_000, jwt_keys_max_age_ms=60_000) as world:
        world.server.status = 503
        await eventually(lambda: FAILED in world.said)
        assert world.is_good("one")
        world.now += 59
        assert world.is_good("one")
        world.now += 2
        assert world.check("one") is Reason.ISSUER_UNAVAILABLE
        world.server.status = 200
        await eventually(lambda: world.is_good("one"))
        assert world.said[0] == world.said[-1] == FETCHED


@pytest.mark.parametrize("kind", ["too long", "no keys", "elsewhere", "not there"])
async def test_what_is_no_key_set_changes_nothing(kind: str) -> None:
    issuer = Issuer()
    issuer.add("one")
    with serving(issuer) as server:
        world = World(issuer, server)
        await world.keys.fetch()
        if kind == "too long":
            server.body = issuer.document() + b" " * 2_000_000
        elif kind == "no keys":
            server.body = b'{"keys":[]}'
        elif kind == "elsewhere":
            server.status, server.headers = 302, {"Location": server.url}
        else:
            server.status = 404
        asked = server.asked
        await world.keys.fetch()
        assert server.asked == asked + 1
        assert world.said == [FETCHED, FAILED]
        assert world.is_good("one")


async def test_keys_over_tls_come_from_a_known_authority(tmp_path: Path) -> None:
    authority, issuer = Authority(tmp_path), Issuer()
    issuer.add("one")
    with serving(issuer, authority.issue("issuer")) as server:
        stranger = World(issuer, server)
        await stranger.keys.fetch()
        assert (stranger.said, server.asked) == ([FAILED], 0)
        world = World(issuer, server, jwt_jwks_ca_file=str(authority.file))
        await world.keys.fetch()
        assert world.is_good("one")


async def test_a_bad_file_of_authorities_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, issuer = Authority(tmp_path), Issuer()
    authority.file.write_bytes(b"no PEM")
    with serving(issuer, authority.issue("issuer")) as server:
        await World(issuer, server, jwt_jwks_ca_file=str(authority.file)).keys.fetch()
    why = f"auth.jwt_jwks_ca_file: {str(authority.file)!r} cannot be used: it is not PEM"
    assert why in caplog.text


async def test_without_any_keys_tokens_are_not_refused_for_good() -> None:
    issuer = Issuer()
    issuer.add("one")
    with serving(issuer) as server:
        world = World(issuer, server)
        assert world.check("one") is Reason.ISSUER_UNAVAILABLE
