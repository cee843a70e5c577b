"""Which requests take the short way."""

from __future__ import annotations

import pytest

from headgate.http.connection import PlainPosts

PLAIN = ((b"Host", b"x"), (b"Content-Type", b"application/json"), (b"Content-Length", b"10"))
LOWER = {b"host": b"x", b"content-type": b"application/json", b"content-length": b"10"}


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("/v1/topics/orders/events", "orders"),
        ("/v1/topics/a.b_c-d/events", "a.b_c-d"),
        ("/v1/topics/a%2Eb/events", "a.b"),
        ("/v1/topics/%2F/events", "/"),
        ("/v1/topics/orders/events?x=1", None),
        ("/v1/topics/orders/events/", None),
        ("/v1/topics//events", None),
        ("/v1/topics/orders", None),
        ("/v1/topics/a/b/events", None),
        ("//v1/topics/orders/events", None),
    ],
)
def test_the_path_names_the_topic(path: str, topic: str | None) -> None:
    posts = PlainPosts(10)
    for _ in range(2):  # the second time it is remembered
        assert posts.read(path, PLAIN) == (None if topic is None else (topic, LOWER))


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Encoding",
        b"expect",
        b"Origin",
        b"Transfer-Encoding",
        b"Upgrade",
    ],
)
def test_a_request_that_asks_for_more_does_not(header: bytes) -> None:
    posts = PlainPosts(10)
    assert posts.read("/v1/topics/orders/events", (*PLAIN, (header, b""))) is None
    assert posts.read("/v1/topics/orders/events", PLAIN) == ("orders", LOWER)


def test_nor_does_a_large_body() -> None:
    assert PlainPosts(9).read("/v1/topics/orders/events", PLAIN) is None
    assert PlainPosts(9).read("/v1/topics/orders/events", PLAIN[:2]) is not None


def test_of_the_paths_that_clients_choose_only_some_are_remembered() -> None:
    posts = PlainPosts(10)
    for number in range(2500):
        path = f"/v1/topics/t{number}/events"
        assert posts.read(path, PLAIN) == (f"t{number}", LOWER)
    assert len(posts._topics) <= 1000
