"""Patterns and texts that make a matcher try all ways: what is done grows with the text, no faster.

The limits of time are a hundred times what it takes; before, each took minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from headgate.config.settings import ProducerSettings
from headgate.formats.decode import with_hint
from headgate.http.auth import Identity
from headgate.model.keys import KeyRule
from headgate.model.outcome import Failure, Reason
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.schema import Schema
from headgate.model.topics import Globs

LONG_S = 5.0  # of work that takes some milliseconds


def within(seconds: float, work: Callable[[], object]) -> object:
    began = time.process_time()  # of this process: others that run meanwhile do not count
    found = work()
    assert time.process_time() - began < seconds
    return found


@pytest.mark.parametrize("stars", [1, 2, 5, 50])
@pytest.mark.parametrize("piece", ["a", "ab", "a?"])
def test_redos_of_globs(stars: int, piece: str) -> None:
    """A client chooses the name of a topic freely, up to the length of a request line."""
    globs = Globs([f"*{piece}" * stars + "*x"])
    assert within(LONG_S, lambda: globs.match("ab" * 4000)) is False
    assert within(LONG_S, lambda: globs.match("ab" * 4000 + "x")) is True


def test_redos_of_the_globs_of_a_producer_and_of_topics() -> None:
    glob, name = "*a*a*a*a*b", "a" * 8000
    caller = Identity("shop", frozenset(ProducerSettings().roles), Globs([glob]))
    assert within(LONG_S, lambda: caller.may_post(name)) is False
    table = PolicyTable([TopicPolicy(glob, "main", key=("/id",))])
    assert within(LONG_S, lambda: table.match(name)) is None
    assert within(LONG_S, lambda: table.match("a" * 249)) is None
    assert table.match("a" * 248 + "b") is not None


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        (rb'{"pattern":"^(a+)+$"}', b'"' + b"a" * 50_000 + b'!"'),
        (rb'{"pattern":"^(?=(a+)+$)b"}', b'"' + b"a" * 50_000 + b'!"'),
        (rb'{"pattern":"^(a|a)*\\\\1$"}', b'"' + b"a" * 5_000 + b'!"'),
        (rb'{"pattern":"^(.*?,){30}P"}', b'"' + b"a," * 20_000 + b'"'),
        (rb'{"patternProperties":{"^(a+)+$":false}}', b'{"' + b"a" * 50_000 + b'!":1}'),
        (rb'{"uniqueItems":true}', b"[" + b",".join(b"[%d]" % n for n in range(50_000)) + b",[1]]"),
    ],
)
def test_redos_of_schemas(schema: bytes, document: bytes) -> None:
    """The schema is the operators', the text is anybody's."""
    within(LONG_S, lambda: Schema(schema).check(document))


@pytest.mark.parametrize("token", ["0" * 8000, "9" * 8000, "~0" * 4000, "/" * 8000])
def test_redos_of_pointers(token: str) -> None:
    within(LONG_S, lambda: KeyRule.parse(["/" + token]))


@pytest.mark.parametrize(
    "body", [b" ", b"{", b"{} ", b"{}\n", b'{"a":', b'{"events"', b'"', b"[\n", b"{}\t\r"]
)
def test_redos_of_hints(body: bytes) -> None:
    """What is advised where a content type does not fit is found by patterns over the body."""
    failure = Failure(Reason.MALFORMED, "why")
    for given in (b"text/plain", b"application/json"):
        headers = {b"content-type": given}
        within(LONG_S, lambda headers=headers: with_hint(failure, headers, body * 200_000))
