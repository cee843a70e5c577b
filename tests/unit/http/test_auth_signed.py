"""A signed token is checked once, and known by its hash for as long as it is valid."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from headgate.config.settings import AuthMode, AuthSettings, ProducerSettings
from headgate.http.auth import Authenticator, Certificate, Claims, Identity, Peer
from headgate.model.outcome import Failure, Reason

# SHA-256 of b"test"
TOKEN_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
PRODUCERS = {
    "shop": ProducerSettings((TOKEN_SHA256,), ("orders",)),
    "oncall": ProducerSettings(roles=("view", "operate")),
}
NOBODY = Peer("192.0.2.7")
SHOP = Peer("192.0.2.7", Certificate((("cn", "shop"),), 1e12))


class Said(NamedTuple):
    """What a token's claims are."""

    name: str
    topics: tuple[str, ...] | None = None
    roles: frozenset[str] | None = None
    until: float = 1000.0


class Tokens:
    """Implements `jwt.CheckedTokens` with tokens that were signed beforehand, so to speak."""

    def __init__(self, **known: Said) -> None:
        self.known = {name.encode(): Claims(*said) for name, said in known.items()}
        self.generation = 0
        self.trusted_until = 10_000.0
        self.checked: list[bytes] = []

    def check(self, token: bytes) -> Claims | Failure:
        self.checked.append(token)
        found = self.known.get(token)
        return found or Failure(Reason.UNAUTHENTICATED, "strange")


class World:
    def __init__(self, tokens: Tokens, *mode: AuthMode) -> None:
        self.tokens = tokens
        self.now = 0.0
        auth = AuthSettings(mode=mode or ("jwt",))
        self._callers = Authenticator(auth, PRODUCERS, signed=tokens, clock=lambda: self.now)

    def who(self, token: str | bytes, peer: Peer = NOBODY) -> Identity | Failure:
        shown = token.encode() if isinstance(token, str) else token
        headers = {b"authorization": b"Bearer " + shown} if shown else {}
        return self._callers.identify(headers, peer)

    def name(self, token: str | bytes, peer: Peer = NOBODY) -> str | None:
        found = self.who(token, peer)
        return None if isinstance(found, Failure) else found.name


def test_a_signature_is_checked_once() -> None:
    world = World(Tokens(a=Said("shop"), b=Said("oncall")))
    for _ in range(100):
        assert (world.name("a"), world.name("b")) == ("shop", "oncall")
    assert world.tokens.checked == [b"a", b"b"]


def test_what_was_refused_is_never_remembered() -> None:
    world = World(Tokens(a=Said("shop")))
    world.who("a")
    for strange in (b"A", b"a\0", b"aa", b"\xff", b"b" * 5000):
        for _ in range(2):
            assert world.name(strange) is None
    assert len(world.tokens.checked) == 11
    world.tokens.known[b"b" * 5000] = Claims("oncall", None, None, 1000.0)
    assert world.name(b"b" * 5000) == "oncall"


def test_it_ends_when_the_token_does() -> None:
    world = World(Tokens(a=Said("shop", until=500.0)))
    assert world.name("a") == "shop"
    world.tokens.known.clear()  # an expired one is refused when it is looked at
    world.now = 499.9
    assert world.name("a") == "shop"
    world.now = 500.0
    assert world.name("a") is None


def test_it_ends_when_a_key_is_gone() -> None:
    world = World(Tokens(a=Said("shop")))
    assert world.name("a") == "shop"
    world.tokens.known.clear()
    assert world.name("a") == "shop"
    world.tokens.generation += 1
    assert world.name("a") is None


def test_it_ends_when_the_keys_are_too_old() -> None:
    world = World(Tokens(a=Said("shop", until=1e9)))
    assert world.name("a") == "shop"
    world.tokens.known.clear()
    world.now = 10_000.0
    assert world.name("a") is None


def test_the_memory_for_tokens_is_bounded() -> None:
    many = [f"t{number}" for number in range(5000)]
    world = World(Tokens(**{name: Said(name) for name in many}))
    world.tokens.known = {
        name: claims._replace(roles=frozenset({"view"}))
        for name, claims in world.tokens.known.items()
    }
    assert [world.name(name) for name in many] == many
    assert world.name(many[-1]) == many[-1]
    assert len(world.tokens.checked) == 5000
    assert world.name(many[0]) == many[0], "the oldest has made room, and is checked again"
    assert len(world.tokens.checked) == 5001


@pytest.mark.parametrize(
    ("said", "topics", "roles"),
    [
        (Said("shop"), ("orders",), {"produce"}),
        (Said("oncall"), (), {"view", "operate"}),
        (Said("shop", ("deals",)), ("deals",), {"produce"}),
        (Said("shop", ("deals",), frozenset()), (), set()),
        (Said("new", ("deals",)), ("deals",), {"produce"}),
        (Said("new", None, frozenset({"view"})), (), {"view"}),
    ],
)
def test_claims_go_over_the_configuration(
    said: Said, topics: tuple[str, ...], roles: set[str]
) -> None:
    found = World(Tokens(a=said)).who("a")
    assert isinstance(found, Identity)
    assert (found.name, found.roles) == (said.name, roles)
    names = ("orders", "deals", "other")
    assert tuple(name for name in names if found.may_post(name)) == topics


def test_a_name_that_nothing_says_anything_of_is_nobody() -> None:
    found = World(Tokens(a=Said("new"))).who("a")
    assert isinstance(found, Failure)
    assert "'new', which is not a configured producer" in found.detail


@pytest.mark.parametrize(
    ("modes", "by_token", "by_signed", "by_certificate"),
    [
        (("token",), True, False, False),
        (("jwt",), False, True, False),
        (("mtls",), False, False, True),
        (("token", "mtls"), True, False, True),
        (("jwt", "token", "mtls"), True, True, True),
    ],
)
def test_the_ways_that_are_configured_and_no_others(
    modes: tuple[AuthMode, ...], by_token: bool, by_signed: bool, by_certificate: bool
) -> None:
    world = World(Tokens(a=Said("oncall")), *modes)
    assert (world.name("test") == "shop") is by_token
    assert (world.name("a") == "oncall") is by_signed
    assert (world.name("", SHOP) == "shop") is by_certificate
    assert world.name("") is None


def test_a_bad_token_is_refused_whatever_certificate_comes_with_it() -> None:
    world = World(Tokens(a=Said("oncall")), "token", "jwt", "mtls")
    assert world.name("a", SHOP) == "oncall"
    assert world.name("strange", SHOP) is None
