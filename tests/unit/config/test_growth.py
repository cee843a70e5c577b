"""How the work grows with the configuration: counted in bytecodes, so that no clock is needed."""

import hashlib
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from headgate.config import load
from headgate.config.settings import AuthSettings, ProducerSettings
from headgate.http.auth import Authenticator, Peer
from headgate.ingest.gate import Compiler
from headgate.model.content import (
    Content,
    ContentCheck,
    examine_here,
    forget_received,
    received_comparison,
)
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.schema import Schema, received_schema, schema_of
from headgate.model.topics import ties
from support.gateway.fakes import topic_state

SMALL, LARGE = 40, 160


def bytecodes(work: Callable[[], object]) -> int:
    """How many bytecodes of Python this executes; comprehensions and loops included."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def toml(topics: int, tokens: int, globs: int) -> str:
    lines = ['[clusters.main]\nbootstrap_servers = "127.0.0.1:9092"', '[auth]\nmode = "token"']
    lines += [f'[topics."t{number}"]\nkey = "/id"' for number in range(topics)]
    lines += [f'[topics."*.g{number:04}"]\nkey = "/id"' for number in range(globs)]
    for number in range(tokens):
        digest = hashlib.sha256(b"token-of-%d" % number).hexdigest()
        lines += [f'[producers.p{number}]\ntoken_sha256 = "{digest}"\ntopics = ["t{number}.*"]']
    return "\n".join(lines)


def loading(folder: Path, kind: str, number: int) -> Callable[[], object]:
    sizes = {"topics": 1, "tokens": 1, "globs": 1} | {kind: number}
    file = folder / f"{number}.toml"
    file.write_text(toml(**sizes))
    load(file, {})  # what is made once has been made
    return lambda: load(file, {})


@pytest.mark.parametrize("kind", ["topics", "tokens", "globs"])
def test_loading_the_configuration_is_linear(tmp_path: Path, kind: str) -> None:
    small, large = (bytecodes(loading(tmp_path, kind, number)) for number in (SMALL, LARGE))
    assert large < small * LARGE / SMALL


@pytest.mark.parametrize("spelling", ["*.team-{}", "team-{}.*", "a?{:04}?b?{:04}", "*"])
def test_looking_for_ties_is_linear(spelling: str) -> None:
    def work(count: int) -> Callable[[], object]:
        patterns = [spelling.format(number, number) for number in range(count)]
        return lambda: list(ties(patterns))

    small, large = bytecodes(work(SMALL)), bytecodes(work(LARGE))
    assert large < 1.2 * small * LARGE / SMALL


def test_a_policy_is_found_at_the_same_cost_among_many() -> None:
    def work(count: int) -> Callable[[], object]:
        table = PolicyTable([TopicPolicy(f"team-{number:04}.*") for number in range(count)])
        return lambda: [table.match(f"nobody-{number}") for number in range(10)]

    small, large = bytecodes(work(SMALL)), bytecodes(work(LARGE))
    assert large <= small


def callers(count: int) -> Authenticator:
    tokens = (hashlib.sha256(b"token-of-%d" % number).hexdigest() for number in range(count))
    producers = {
        f"p{number}": ProducerSettings((digest.upper(),), (f"t{number}.*", "all"))
        for number, digest in enumerate(tokens)
    }
    return Authenticator(AuthSettings(mode=("token",)), producers)


@pytest.mark.parametrize(
    "token", [b"token-of-0", b"token-of-1", b"token-of-39", b"unknown", b"\xff"]
)
def test_a_token_is_looked_up_once_however_many_there_are(token: bytes) -> None:
    headers = {b"authorization": b"Bearer " + token}
    costs = set()
    for count in (SMALL, LARGE):
        known = callers(count)
        costs.add(bytecodes(lambda known=known: known.identify(headers, Peer(None))))  # type: ignore[misc]
    assert len(costs) == 1


def schema_text(number: int) -> bytes:
    return b'{"properties":{"n%d":{"type":"integer"}}}' % number


def orders_of(count: int) -> list[ContentCheck]:
    """As the routes of so many topics have them, each with a schema and a comparison of its own."""
    compiler, found = Compiler(128, "headgate"), []
    for number in range(count):
        schema = schema_of(schema_text(number))
        policy = TopicPolicy(
            f"t{number}", schema=schema, suppress="canonical", ignore=(f"/at{number}",)
        )
        found.append(compiler(policy, topic_state(policy.pattern)).check)
    return [orders for orders in found if orders is not None]


CONTENT = Content(b'{"n":1}', b"application/json", b'{"n":1}')


def test_schemas_and_comparisons_are_made_once_however_many_there_are() -> None:
    def work(count: int) -> Callable[[], object]:
        many = orders_of(count)
        return lambda: [examine_here(orders, CONTENT) for orders in many]

    small, large = bytecodes(work(SMALL)), bytecodes(work(LARGE))
    assert large < 1.01 * small * LARGE / SMALL


def test_a_schema_is_compiled_once_for_all_topics_and_while_a_configuration_has_it() -> None:
    held = schema_of(schema_text(-1))
    assert schema_of(schema_text(-1)) is held
    assert isinstance(held, Schema)


def test_the_process_aside_makes_each_once_until_the_next_configuration() -> None:
    forget_received()
    sent = [pickle.dumps(orders) for orders in orders_of(LARGE)]
    first, second = ([pickle.loads(each) for each in sent] for _ in range(2))
    assert all(one[0] is other[0] for one, other in zip(first, second, strict=True))
    assert all(one[1] is other[1] for one, other in zip(first, second, strict=True))
    assert received_schema.cache_info().misses == LARGE
    forget_received()
    assert received_schema.cache_info().currsize == received_comparison.cache_info().currsize == 0
