"""When certificates end, by the dates that another library gave them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headgate.supervisor.active_config import expires_at
from support.identity.authority import Authority

YEAR = timedelta(days=365)


def in_seconds(lasts: timedelta) -> float:
    return (datetime.now(UTC) + lasts).timestamp()


@pytest.mark.parametrize("lasts", [timedelta(hours=-1), timedelta(days=90), 40 * YEAR])
def test_the_end_of_a_certificate(tmp_path: Path, lasts: timedelta) -> None:
    """From 2050 on the date has another form."""
    pair = Authority(tmp_path).issue("server", uri="spiffe://" + "x" * 300, lasts=lasts)
    found = expires_at(b"Subject: server\n" + pair.certificate.read_bytes())
    assert found == pytest.approx(in_seconds(lasts), abs=60)


def test_a_chain_ends_with_its_first_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server", lasts=YEAR).certificate.read_bytes()
    soon = expires_at(authority.file.read_bytes())
    assert soon == pytest.approx(in_seconds(timedelta(days=1)), abs=60)
    assert expires_at(server + authority.file.read_bytes()) == soon


@pytest.mark.parametrize("body", [b"", b"MAo=", b"!", b"MIIB"])
def test_what_is_none_has_no_end(body: bytes) -> None:
    assert expires_at(b"-----BEGIN CERTIFICATE-----" + body + b"-----END CERTIFICATE-----") is None
    assert expires_at(body) is None
