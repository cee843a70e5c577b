"""Who a client certificate names."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path

import pytest

from headgate.config.settings import AuthSettings, CertificateName, ProducerSettings
from headgate.http.auth import Authenticator, Certificate, Identity, Peer, read_certificate
from headgate.model.outcome import Failure, Reason
from support.identity.authority import Authority

PRODUCERS = {
    "shop": ProducerSettings(topics=("orders",)),
    "checkout": ProducerSettings(
        certificate_names=("spiffe://prod/checkout", "checkout.prod", "c@prod.example"),
    ),
}
URI = "spiffe://prod/checkout"


def who(
    kind: CertificateName, *names: tuple[str, str], now: float = 0.0, **headers: bytes
) -> Identity | Failure:
    callers = Authenticator(
        AuthSettings(mode=("mtls",), mtls_name=kind), PRODUCERS, clock=lambda: now
    )
    given = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return callers.identify(given, Peer("192.0.2.7", Certificate(names, 100.0)))


def test_fields_of_a_real_certificate(tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue(
        "shop", uri=URI, dns="checkout.prod", email="c@prod.example", lasts=timedelta(days=1)
    )
    decode = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]
    found = read_certificate(decode(str(pair.certificate)))
    assert set(found.names) == {
        ("cn", "shop"),
        ("uri", URI),
        ("dns", "checkout.prod"),
        ("email", "c@prod.example"),
    }


@pytest.mark.parametrize(
    ("kind", "names", "name"),
    [
        ("cn", [("cn", "shop")], "shop"),
        ("cn", [("cn", "other")], None),
        ("cn", [("cn", "checkout")], None),
        ("cn", [("dns", "shop"), ("uri", "shop"), ("email", "shop")], None),
        ("uri", [("cn", "shop"), ("uri", URI)], "checkout"),
        ("uri", [("cn", URI), ("dns", URI)], None),
        ("dns", [("dns", "other"), ("dns", "checkout.prod")], "checkout"),
        ("email", [("email", "c@prod.example")], "checkout"),
        ("dns", [("dns", "shop"), ("dns", "checkout.prod")], None),
        ("cn", [("cn", "SHOP")], None),
        ("cn", [("cn", "shop\0")], None),
        ("cn", [], None),
    ],
)
def test_the_name_of_the_kind_that_is_configured(
    kind: CertificateName, names: list[tuple[str, str]], name: str | None
) -> None:
    found = who(kind, *names)
    assert (None if isinstance(found, Failure) else found.name) == name
    if isinstance(found, Failure):
        assert found.reason is Reason.UNAUTHENTICATED
        assert "client certificate names" in found.detail


def test_a_connection_does_not_outlive_its_certificate() -> None:
    assert isinstance(who("cn", ("cn", "shop"), now=99.9), Identity)
    found = who("cn", ("cn", "shop"), now=100.0)
    assert isinstance(found, Failure)
    assert "expired" in found.detail


def test_a_page_of_elsewhere_cannot_use_the_browsers_certificate() -> None:
    found = who("cn", ("cn", "shop"), origin=b"https://evil.example", host=b"gateway:8080")
    assert isinstance(found, Failure)
    assert found.reason is Reason.FORBIDDEN


def test_what_the_configuration_says_counts() -> None:
    found = who("cn", ("cn", "shop"))
    assert isinstance(found, Identity)
    assert [found.may_post(topic) for topic in ("orders", "deals")] == [True, False]
    assert found.roles == {"produce"}
