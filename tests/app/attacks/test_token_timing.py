"""Timing of token comparison: what is executed for a wrong token is the same, however near it is.

The time itself would be noise; what is counted is every line and call that Python executes.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import headgate.http
from headgate.config.settings import AuthSettings, ProducerSettings
from headgate.http.auth import AttemptLimit, Authenticator, Peer
from headgate.model.outcome import Failure

TOKEN = "q3v9" * 11  # 43 characters, as those that `headgate token` makes
NEAR = [TOKEN[:cut] + ("x" if cut < len(TOKEN) else "") + TOKEN[cut + 1 :] for cut in range(43)]


def executed(work: Callable[[], object]) -> list[tuple[str, int]]:
    """Every line, as file and number, in order, without those of the collector: what other tests
    left behind may have destructors."""
    lines: list[tuple[str, int]] = []
    collects = gc.isenabled()
    gc.collect()
    gc.disable()

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if event in ("call", "line"):
            lines.append((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return lines


def test_timing_of_token_comparison_tells_nothing_of_the_token() -> None:
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    producers = {"shop": ProducerSettings(token_sha256=(digest,))}
    limit = AttemptLimit(1_000_000, lambda: 0.0)
    callers = Authenticator(AuthSettings(mode=("token",)), producers, attempts=limit)

    def ask(token: str) -> object:
        return callers.identify({b"authorization": f"Bearer {token}".encode()}, Peer("192.0.2.1"))

    assert not isinstance(ask(TOKEN), Failure)
    assert isinstance(ask("x" * 43), Failure)  # the first failure of an address is its first
    ways = {tuple(executed(lambda token=token: ask(token))) for token in NEAR}  # type: ignore[misc]
    assert len(ways) == 1
    assert all(isinstance(ask(token), Failure) for token in NEAR)


def test_timing_of_token_comparison_depends_on_hashes_alone() -> None:
    """Nothing in the edge compares a token, or anything it came in: only digests are looked up."""
    secret = {"token", "credentials", "authorization"}
    found = []
    for path in Path(headgate.http.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                named = [one.id for one in sides if isinstance(one, ast.Name)]
                is_none = any(isinstance(one, ast.Constant) and one.value is None for one in sides)
                if secret & set(named) and not is_none:
                    found.append(f"{path.name}: {ast.unparse(node)}")
    assert found == []
