"""Every aiokafka client asks for metadata in our way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support.root import ROOT

MAKERS = {"AIOKafkaClient", "AIOKafkaConsumer", "AIOKafkaProducer", "AIOKafkaAdminClient"}


def called(tree: ast.AST) -> list[str]:
    """The names of what is called, each as often as it is."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [func.id for func in calls if isinstance(func, ast.Name)]


def places() -> Iterator[tuple[Path, int, int]]:
    """The files that make clients: how many clients, and how many of those are told."""
    for package in ("gateway/headgate", "spark/headgate_spark"):
        for file in (ROOT / package).rglob("*.py"):
            names = called(ast.parse(file.read_text()))
            made = sum(name in MAKERS for name in names)
            if made:
                yield file, made, names.count("use_own_metadata")


def test_no_client_is_left_out() -> None:
    found = list(places())
    assert len(found) >= 8
    assert [file for file, made, told in found if told < made] == []
