"""How many wrong credentials an address may send."""

from __future__ import annotations

import pytest

from headgate.http.auth import WINDOW_S, Attempts, network_of

HERE, THERE = "192.0.2.1", "192.0.2.2"


def test_the_limit_at_once_then_one_at_a_time() -> None:
    tried = Attempts(6)  # one in ten seconds
    for _ in range(6):
        assert tried.wait(HERE, b"guess", 100.0) == 0
        tried.wrong(HERE, b"", 100.0)
    assert tried.wait(HERE, b"guess", 100.0) == pytest.approx(10)
    assert tried.wait(HERE, b"guess", 109.9) == pytest.approx(0.1)
    assert tried.wait(HERE, b"guess", 110.0) == 0
    tried.wrong(HERE, b"", 110.0)
    assert tried.wait(HERE, b"guess", 110.0) == pytest.approx(10)
    assert tried.wait(HERE, b"guess", 110.0 + WINDOW_S) == 0


def test_other_addresses_are_not_concerned() -> None:
    tried = Attempts(1)
    tried.wrong(HERE, b"", 0.0)
    assert tried.wait(HERE, b"guess", 0.0) > 0
    assert tried.wait(THERE, b"guess", 0.0) == 0


def test_what_was_right_before_from_there_goes_on() -> None:
    tried = Attempts(1)
    tried.right(HERE, b"Bearer good")
    tried.wrong(HERE, b"", 0.0)
    tried.wrong(THERE, b"", 0.0)
    assert tried.wait(HERE, b"Bearer good", 0.0) == 0
    assert tried.wait(HERE, b"Bearer other", 0.0) > 0
    assert tried.wait(THERE, b"Bearer good", 0.0) > 0, "not from there"


def test_no_token_is_kept() -> None:
    tried = Attempts(1)
    tried.right(HERE, b"Bearer geheim")
    tried.wrong(HERE, b"", 0.0)
    assert "geheim" not in repr((tried._clean_at, tried._known))


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("unknown", "unknown"),
    ],
)
def test_a_subscriber_is_one_address(address: str, network: str) -> None:
    assert network_of(address) == network


def test_addresses_of_one_network_share_a_record() -> None:
    tried = Attempts(3)
    for number in range(3):
        tried.wrong(f"2001:db8::{number}", b"", 0.0)
    assert tried.wait("2001:db8::ffff", b"guess", 0.0) > 0


def test_spraying_addresses_fills_nothing_and_forgets_nobody() -> None:
    tried = Attempts(2, addresses=100)
    tried.wrong(HERE, b"", 0.0)
    tried.wrong(HERE, b"", 0.0)
    for number in range(5000):
        tried.wrong(f"10.0.{number // 250}.{number % 250}", b"", 0.0)
    assert len(tried._clean_at) <= 101
    assert tried.wait(HERE, b"guess", 0.0) > 0, "its record was washed away"
    assert tried.wait("10.9.9.9", b"guess", 0.0) > 0, "newcomers share one record"
    later = WINDOW_S * 5000  # the shared record is clean again, too
    tried.wrong("10.9.9.9", b"", later)
    assert tried.wait("10.9.9.8", b"guess", later) == 0
    assert len(tried._clean_at) <= 2


def test_what_was_right_is_remembered_of_so_many() -> None:
    tried = Attempts(1, remembered=10)
    tried.wrong(HERE, b"", 0.0)
    for number in range(30):
        tried.right(HERE, b"Bearer %d" % number)
    passed = [tried.wait(HERE, b"Bearer %d" % number, 0.0) == 0 for number in range(30)]
    assert passed == [False] * 20 + [True] * 10
