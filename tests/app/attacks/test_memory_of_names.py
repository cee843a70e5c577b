"""Names that clients choose are remembered, so as many and as long ones as they like must fit."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from headgate.config.settings import AuthSettings
from headgate.http.auth import Authenticator, Peer
from headgate.http.connection import KnownHeads, PlainPosts
from headgate.ingest.records import partition_of
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.native.chosen import framed
from support.gateway.fakes import route

NAMES, LONG = 1000, 8000  # of 8 MB together
KEPT_BYTES = 900_000

CALLERS = Authenticator(AuthSettings(), {})
TABLE = PolicyTable([TopicPolicy("orders*", "main", key=("/id",))])
ROUTE = route()
POSTS = PlainPosts(1000)
HEADS = KnownHeads()


def learn(name: str) -> None:
    """A head of 4 KiB at most is looked at."""
    request = framed(f"POST / HTTP/1.1\r\nContent-Length: 0\r\nX-A: {name}\r\n\r\n".encode())
    if request is not None:
        HEADS.learn(request, "orders", {b"x-a": name.encode()})


@pytest.mark.parametrize(
    "take",
    [
        pytest.param(
            lambda name: CALLERS.identify({b"headgate-producer": name.encode()}, Peer(None)),
            id="producers",
        ),
        pytest.param(lambda name: TABLE.match(f"orders{name}"), id="topics"),
        pytest.param(lambda name: partition_of(ROUTE, name.encode()[-1000:]), id="keys"),
        pytest.param(
            lambda name: POSTS.read(f"/v1/topics/{name}/events", ((b"Host", b"x"),)), id="paths"
        ),
        pytest.param(learn, id="heads"),
    ],
)
def test_a_flood_of_long_names_is_not_remembered(take: Callable[[str], object]) -> None:
    take("short")
    tracemalloc.start()
    try:
        for number in range(NAMES):
            take(f"{number:0{LONG}}")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < KEPT_BYTES
