"""Keys over several servers: who knows a key, what a server is called, what two lists agree on."""

from __future__ import annotations

from collections import Counter

import pytest

from headgate.redis.servers import MAX_SERVERS, Slots, server_name
from headgate.suppression.rules import layout_of

SERVERS = [f"redis-{number}:6379/0" for number in range(1, 8)]
KEYS = [b"key-%d" % number for number in range(30_000)]


def owners(servers: list[str]) -> list[str]:
    slots = Slots(servers)
    return [servers[slots.owner(key)] for key in KEYS]


@pytest.mark.parametrize("count", [2, 3, 5, 7])
def test_servers_know_about_as_many_keys_each(count: int) -> None:
    found = Counter(owners(SERVERS[:count]))
    assert len(found) == count
    fair = len(KEYS) / count
    assert all(0.85 * fair < one < 1.15 * fair for one in found.values()), found


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_a_new_server_takes_its_part_and_nothing_else_moves(count: int) -> None:
    before, after = owners(SERVERS[:count]), owners(SERVERS[: count + 1])
    moved = [now for was, now in zip(before, after, strict=True) if was != now]
    assert set(moved) == {SERVERS[count]}
    fair = len(KEYS) / (count + 1)
    assert 0.85 * fair < len(moved) < 1.15 * fair


def test_the_order_of_the_list_does_not_matter() -> None:
    assert owners(SERVERS[:4]) == owners(SERVERS[3::-1])
    assert layout_of(SERVERS[:4]) == layout_of(SERVERS[3::-1])


def test_where_a_key_is_known_never_changes() -> None:
    """Gateways of two versions must agree on it."""
    slots = Slots(SERVERS[:3])
    assert [slots.owner(b"key-%d" % number) for number in range(12)] == PLACES


PLACES = [1, 0, 2, 1, 2, 0, 1, 0, 2, 1, 1, 0]


@pytest.mark.parametrize("servers", [[], ["a", "a"], [str(n) for n in range(MAX_SERVERS + 1)]])
def test_a_list_that_cannot_be(servers: list[str]) -> None:
    with pytest.raises(ValueError, match="servers"):
        Slots(servers)


def test_one_server_is_the_same_layout_whatever_it_is_called() -> None:
    assert layout_of(["a:1/0"]) == layout_of(["b:1/0"])
    assert layout_of(["a:1/0", "b:1/0"]) != layout_of(["a:1/0", "c:1/0"])


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://one", "one:6379/0"),
        ("redis://One:6379/0", "one:6379/0"),
        ("rediss://user:secret@one/2?ssl_ca_certs=/ca.pem", "one:6379/2"),
        ("redis://one:1?db=3", "one:1/3"),
        ("redis://[::1]:1", "[::1]:1/0"),
        ("unix:///run/redis.sock", "/run/redis.sock?0"),
        ("redis+sentinel://:pw@b:1,a/main", "a:26379,b:1/main/0"),
        ("rediss+sentinel://a,b:1/main/2?sentinel_password=s", "a:26379,b:1/main/2"),
    ],
)
def test_a_server_is_called_the_same_whatever_its_password(url: str, name: str) -> None:
    assert server_name(url) == name
