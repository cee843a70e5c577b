"""What a signed token must be to be taken, and what it may say."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.http.auth import Claims
from headgate.http.jwt import CheckedTokens, FetchedKeys
from headgate.model.outcome import Failure, Reason
from support.identity.issuer import AUDIENCE, ISSUER, Issuer, settings, signed

ALGORITHMS = ("RS256", "RS512", "PS256", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY_S = 30
USUAL: dict[str, Any] = {"iss": ISSUER, "aud": AUDIENCE, "sub": "shop", "exp": 4_000_000_000}


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    found = Issuer()
    for algorithm in ALGORITHMS:
        found.add(algorithm, algorithm)
    return found


class Desk:
    """Checks tokens of an issuer; the clock stands still unless a test moves it."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.file = folder / "jwks.json"
        self.now = time.time()
        self.said: list[str] = []
        auth = settings(f"file://{self.file}", **{"jwt_algorithms": ALGORITHMS, **more})
        self.keys = FetchedKeys(auth, self.said.append, lambda: self.now)
        self.tokens = CheckedTokens(auth, self.keys, lambda: self.now)

    def check(self, token: str | bytes) -> Claims | Failure:
        return self.tokens.check(token.encode() if isinstance(token, str) else token)

    def refusal(self, token: str | bytes) -> str:
        found = self.check(token)
        assert isinstance(found, Failure), found
        assert found.reason is Reason.UNAUTHENTICATED
        return found.detail


async def opened(folder: Path, issuer: Issuer, **more: Any) -> Desk:
    desk = Desk(folder, **more)
    desk.file.write_bytes(issuer.document())
    await desk.keys.fetch()
    return desk


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_a_good_token_is_taken(tmp_path: Path, issuer: Issuer, algorithm: str) -> None:
    desk = await opened(tmp_path, issuer)
    found = desk.check(issuer.token(algorithm, sub="shop", exp=int(desk.now) + 60))
    assert found == Claims("shop", None, None, int(desk.now) + 60 + LEEWAY_S)


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"exp": None}, "lacks exp"),
        ({"iss": None}, "lacks iss"),
        ({"aud": None}, "lacks aud"),
        ({"iss": "https://other.example"}, "by iss"),
        ({"aud": "other"}, "by aud"),
        ({"aud": ["other", "more"]}, "by aud"),
        ({"aud": {"headgate": 1}}, "by aud"),
        ({"exp": 1}, "has expired"),
        ({"exp": "4000000000"}, "by exp"),
        ({"exp": True}, "by exp"),
        ({"exp": float("nan")}, "by exp"),
        ({"nbf": 4_000_000_000}, "by nbf"),
        ({"sub": None}, "names no producer"),
        ({"sub": ""}, "names no producer"),
        ({"sub": "a\nb"}, "names no producer"),
        ({"sub": "x" * 101}, "names no producer"),
    ],
)
async def test_claims_that_do_not_fit_are_refused(
    tmp_path: Path, issuer: Issuer, claims: dict[str, Any], said: str
) -> None:
    desk = await opened(tmp_path, issuer)
    assert said in desk.refusal(issuer.token("ES256", **{"sub": "shop", **claims}))


async def test_one_of_several_audiences_is_enough(tmp_path: Path, issuer: Issuer) -> None:
    desk = await opened(tmp_path, issuer, jwt_audience=("here", AUDIENCE))
    assert isinstance(desk.check(issuer.token("ES256", sub="a", aud=["x", AUDIENCE])), Claims)
    assert isinstance(desk.check(issuer.token("ES256", sub="a", aud="here")), Claims)


async def test_clocks_may_differ_by_the_leeway(tmp_path: Path, issuer: Issuer) -> None:
    desk = await opened(tmp_path, issuer)
    end, begin = int(desk.now), int(desk.now) + 1000
    ended, begins = (
        issuer.token("ES256", sub="a", exp=end),
        issuer.token("ES256", sub="a", nbf=begin, exp=begin + 1),
    )
    desk.now = end + LEEWAY_S - 1
    assert isinstance(desk.check(ended), Claims)
    desk.now = end + LEEWAY_S
    assert "expired" in desk.refusal(ended)
    desk.now = begin - LEEWAY_S - 1
    assert "by nbf" in desk.refusal(begins)
    desk.now = begin - LEEWAY_S
    assert isinstance(desk.check(begins), Claims)


def changed(token: str, part: int, **members: object) -> str:
    """The token with other members in its header (0) or claims (1), and the old signature."""
    parts = token.split(".")
    document = json.loads(base64.urlsafe_b64decode(parts[part] + "=="))
    text = json.dumps({**document, **members}).encode()
    parts[part] = base64.urlsafe_b64encode(text).rstrip(b"=").decode()
    return ".".join(parts)


async def test_what_was_changed_after_signing_is_refused(tmp_path: Path, issuer: Issuer) -> None:
    desk = await opened(tmp_path, issuer)
    for algorithm in ALGORITHMS:
        token = issuer.token(algorithm, sub="shop")
        assert "signature" in desk.refusal(changed(token, 1, sub="admin"))
        assert "signature" in desk.refusal(changed(token, 0, typ="other"))
        head, body, signature = token.split(".")
        assert "signature" in desk.refusal(f"{head}.{body}.{signature[:-8]}AAAAAAAA")
        assert "signature" in desk.refusal(f"{head}.{body}.")


async def test_a_public_key_is_nobodys_secret(tmp_path: Path, issuer: Issuer) -> None:
    """Alg confusion: whoever knows the public key signs with HMAC and says so in the header."""
    desk = await opened(tmp_path, issuer)
    for key_id, (_, key) in issuer.keys.items():
        shown = json.dumps(key.as_dict(private=False)).encode()
        for secret in (key.as_pem(private=False), key.as_der(private=False), shown):
            for algorithm in ("HS256", "HS384", "HS512"):
                header = {"alg": algorithm, "kid": key_id}
                found = desk.refusal(signed(header, USUAL, secret))
                assert "not allowed" in found


async def test_unsigned_tokens_are_refused(tmp_path: Path, issuer: Issuer) -> None:
    desk = await opened(tmp_path, issuer)
    for name in ("none", "None", "NONE", "nOnE", ""):
        header = base64.urlsafe_b64encode(json.dumps({"alg": name, "kid": "ES256"}).encode())
        body = base64.urlsafe_b64encode(json.dumps(USUAL).encode())
        token = b".".join((header.rstrip(b"="), body.rstrip(b"="), b""))
        assert "not allowed" in desk.refusal(token)


async def test_a_key_is_for_the_algorithms_of_its_kind(tmp_path: Path, issuer: Issuer) -> None:
    desk = await opened(tmp_path, issuer, jwt_unknown_key_ms=86_400_000)
    for algorithm in ALGORITHMS:
        for key_id in set(ALGORITHMS) - {algorithm}:
            desk.refusal(changed(issuer.token(algorithm, sub="shop"), 0, kid=key_id))
            fits = algorithm[:2] in ("RS", "PS") and key_id[:2] in ("RS", "PS")
            assert (desk.keys.find(key_id, algorithm) is not None) is fits
    mixed = changed(issuer.token("RS256", sub="shop"), 0, kid="ES256")
    assert "key that the issuer does not have" in desk.refusal(mixed)


async def test_a_key_in_the_token_itself_is_not_looked_at(tmp_path: Path, issuer: Issuer) -> None:
    desk, stranger = await opened(tmp_path, issuer), Issuer()
    stranger.add("ES256")
    _, key = stranger.keys["ES256"]
    for extra in ({"jwk": key.as_dict(private=False)}, {"jku": "https://evil.example/keys"}):
        token = signed({"alg": "ES256", "kid": "ES256", **extra}, USUAL, key)
        assert "signature" in desk.refusal(token)


async def test_only_algorithms_of_the_configuration(tmp_path: Path, issuer: Issuer) -> None:
    desk = await opened(tmp_path, issuer, jwt_algorithms=("ES256",))
    assert isinstance(desk.check(issuer.token("ES256", sub="a")), Claims)
    assert "not allowed" in desk.refusal(issuer.token("RS256", sub="a"))


async def test_critical_extensions_that_nobody_knows_are_refused(
    tmp_path: Path, issuer: Issuer
) -> None:
    desk = await opened(tmp_path, issuer)
    header = {"alg": "ES256", "kid": "ES256", "crit": ["exp2"], "exp2": 1}
    desk.refusal(signed(header, USUAL, issuer.keys["ES256"][1]))


async def test_what_is_no_token_is_refused_whatever_it_is(tmp_path: Path, issuer: Issuer) -> None:
    desk = await opened(tmp_path, issuer)
    head = base64.urlsafe_b64encode(b'{"alg":"ES256","kid":"ES256"}').rstrip(b"=")
    deep = base64.urlsafe_b64encode(b"[" * 6000).rstrip(b"=")
    for token in (b"", b"..", b"a.b.c", b"\xff.\xff.\xff", deep + b".e30.AA", head + b"..",
                  head + b"." + deep + b".AA", b"bnVsbA.e30.AA", b"W10.e30.AA"):  # fmt: skip
        desk.refusal(token)
    nested = signed({"alg": "ES256", "kid": "ES256"}, USUAL, issuer.keys["ES256"][1])
    for kid in (1, [], {}, None, True):
        desk.check(changed(nested, 0, kid=kid))
    for claims in ([], 1, "text", None, {}):
        desk.refusal(signed({"alg": "ES256", "kid": "ES256"}, claims, issuer.keys["ES256"][1]))


TEXT = st.text(alphabet="abcXYZ019-_=. \x00\xff", max_size=40)


@given(parts=st.lists(TEXT, min_size=1, max_size=5), raw=st.binary(max_size=60))
async def test_nothing_at_all_makes_it_fail(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], raw: bytes
) -> None:
    desk = Desk(tmp_path_factory.getbasetemp())
    desk.check(".".join(parts).encode())
    desk.check(raw)


async def test_claims_say_topics_and_roles(tmp_path: Path, issuer: Issuer) -> None:
    desk = await opened(
        tmp_path,
        issuer,
        jwt_producer_claim="client.id",
        jwt_topics_claim="https://id.example/topics",
        jwt_roles_claim="realm_access.roles",
        jwt_produce_values=("writer", "robot"),
        jwt_operate_values=("oncall",),
    )

    def said(**claims: object) -> tuple[object, ...]:
        named = {"client": {"id": "shop"}, **claims}
        found = desk.check(issuer.token("ES256", **named))
        assert isinstance(found, Claims)
        return found.name, found.topics, found.roles

    topics = {"https://id.example/topics": ["orders", "deals.*"]}
    roles = {"realm_access": {"roles": ["robot", "oncall", "cook"]}}
    everything = said(**topics, **roles)
    assert everything == ("shop", ("orders", "deals.*"), frozenset({"produce", "operate"}))
    assert said(**{"https://id.example/topics": "orders deals.*"})[1] == ("orders", "deals.*")
    assert said() == ("shop", (), frozenset()), "a claim that is not there gives nothing"
    assert said(realm_access="produce", **{"https://id.example/topics": {"orders": 1}})[1:] == (
        (),
        frozenset(),
    )


async def test_an_end_in_the_far_future_is_one(tmp_path: Path, issuer: Issuer) -> None:
    desk = await opened(tmp_path, issuer)
    found = desk.check(issuer.token("ES256", sub="shop", exp=10**400))
    assert isinstance(found, Claims)
    assert found.until > desk.now
