"""Each field that a log call of the tree gives is in the table, and each of the table is given.

What a call gives is read from the code: `extra` is a dictionary in place, a name for one, or what
callers hand on. A call that this cannot read fails the test, and is to be written more plainly.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate.metrics import build
from headgate.metrics.logs import LOG_FIELDS
from support.root import ROOT

ROOTS = (ROOT / "gateway" / "headgate", ROOT / "spark" / "headgate_spark")
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
LOGGERS = {"log", "_log", "access", "logger"}
OF_EVERY_LINE = {"time", "level", "logger", "text", "error", "repeated"}
# `REPORTED` is a place on aiohttp's request: `http.request_log` says what is there.
KNOWN = {"BUILD_FIELDS": tuple(build.BUILD_FIELDS), "REPORTED": ("request_id", "producer")}
HANDED_ON = {"changed"}  # to other modules, which keep it as `_changed`
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Place(NamedTuple):
    """Where an expression stands."""

    file: Path
    function: Function | None

    def __str__(self) -> str:
        return f"{self.file.name}: {self.function and self.function.name}"


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


@pytest.fixture(scope="module", autouse=True)
def no_tree_outlives_its_test() -> Iterator[None]:
    """Drop the trees at the end: 800,000 objects, which each later `gc.collect()` would visit."""
    yield
    for kept in (tree, calls, calls_with, calls_of):
        kept.cache_clear()


_under_way: set[tuple[Function | None, str]] = set()


@cache
def calls(file: Path) -> list[tuple[Place, ast.Call]]:
    """Every call of a file, with the innermost function that it stands in."""
    found: list[tuple[Place, ast.Call]] = []

    def walk(node: ast.AST, place: Place) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                found.append((place, child))
            walk(child, place._replace(function=child) if isinstance(child, Function) else place)

    walk(tree(file), Place(file, None))
    return found


@cache
def calls_with(word: str) -> list[tuple[Place, ast.Call]]:
    """The calls of all files that have this word: parsing the others takes seconds."""
    files = [file for root in ROOTS for file in root.rglob("*.py") if word in file.read_text()]
    return [found for file in files for found in calls(file)]


@cache
def calls_of(name: str) -> list[tuple[Place, ast.Call]]:
    return [(place, call) for place, call in calls_with(name) if name_of(call) == name]


def name_of(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def is_log(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in LEVELS:
        return False
    return getattr(function.value, "attr", getattr(function.value, "id", "")) in LOGGERS


def keys(value: ast.expr, place: Place) -> Iterator[str]:
    """The names that a dictionary may have."""
    if isinstance(value, ast.Dict):
        for key, one in zip(value.keys, value.values, strict=True):
            if key is None:
                yield from keys(one, place)
            else:
                assert isinstance(key, ast.Constant), f"{place}: {ast.unparse(value)}"
                yield str(key.value)
    elif isinstance(value, ast.Name):
        yield from keys_of_name(value.id, place)
    elif isinstance(value, ast.Call) and value.args and ast.unparse(value.args[0]) == "REPORTED":
        yield from KNOWN["REPORTED"]
    elif isinstance(value, ast.Call):
        yield from keys_returned(name_of(value), place)
    elif isinstance(value, ast.IfExp):
        yield from keys(value.body, place)
        yield from keys(value.orelse, place)
    elif isinstance(value, ast.BoolOp):
        for one in value.values:
            yield from keys(one, place)
    elif isinstance(value, ast.Attribute) and value.attr == "newest":
        return  # the fields of an earlier line
    else:
        pytest.fail(f"{place}: what is in {ast.unparse(value)}?")


def keys_of_name(name: str, place: Place) -> Iterator[str]:
    function = place.function
    if name in KNOWN:
        yield from KNOWN[name]
    elif (function, name) not in _under_way:  # else it is made from what it was before
        assert function is not None, f"{place}: {name}"
        _under_way.add((function, name))
        try:
            yield from keys_assigned(name, function, place)
        finally:
            _under_way.discard((function, name))


def keys_assigned(name: str, function: Function, place: Place) -> Iterator[str]:
    is_found = False
    for node in ast.walk(function):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        for target in targets if isinstance(node, ast.Assign | ast.AnnAssign) else ():
            value = node.value
            if isinstance(target, ast.Name) and target.id == name and value is not None:
                is_found = True
                yield from keys(value, place)
            if isinstance(target, ast.Subscript) and getattr(target.value, "id", "") == name:
                assert isinstance(target.slice, ast.Constant)
                yield str(target.slice.value)
    if name == getattr(function.args.kwarg, "arg", None):
        yield from keywords_to(function)
    elif name in (parameters := [one.arg for one in function.args.args]):
        yield from handed_to(function, place.file, parameters.index(name))
    else:
        assert is_found, f"{place}: what is in {name}?"


def keywords_to(function: Function) -> Iterator[str]:
    """Of all calls of functions of this name, as far as they are not parameters by name."""
    named = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
    for place, call in calls_of(function.name):
        for keyword in call.keywords:
            if keyword.arg is not None:
                yield from () if keyword.arg in named else (keyword.arg,)
            else:
                yield from keys(keyword.value, place)


def handed_to(function: Function, file: Path, index: int) -> Iterator[str]:
    index -= function.args.args[0].arg == "self"
    is_handed_on = function.name in HANDED_ON
    found = calls_of(function.name)
    if is_handed_on:
        found = [*found, *calls_of(f"_{function.name}")]
    for place, call in found:
        if len(call.args) > index and (place.file == file or is_handed_on):
            yield from keys(call.args[index], place)


def keys_returned(name: str, place: Place) -> Iterator[str]:
    """Of a function of the same module, or of the one that it is imported from."""
    file = place.file
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.ImportFrom) and any(one.name == name for one in node.names):
            file = ROOT / "gateway" / f"{str(node.module).replace('.', '/')}.py"
    (function,) = (
        one for one in ast.walk(tree(file)) if isinstance(one, Function) and one.name == name
    )
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield from keys(node.value, Place(file, function))


@cache
def given() -> dict[str, set[str]]:
    """By log call, its fields."""
    found: dict[str, set[str]] = {}
    for place, call in calls_with("extra="):
        for keyword in call.keywords if is_log(call) else ():
            if keyword.arg == "extra":
                shown = f"{place}, line {call.lineno}"
                found[shown] = set(keys(keyword.value, place))
    return found


def test_the_calls_are_found() -> None:
    found = given()
    assert len(found) > 25
    (flood,) = [one for name, one in found.items() if name.startswith("request_log.py: _report")]
    assert {"request_id", "producer", "topic", "status", "trace_id", "reasons", "path"} <= flood
    (change,) = [one for name, one in found.items() if ": changed," in name]
    assert change == {
        "producer", "remote", "topic", "key", "group", "scope", "reason", "snapshot", "replay",
        "called",
    }  # fmt: skip


def test_fields_are_in_the_table() -> None:
    table = set(LOG_FIELDS) - OF_EVERY_LINE
    assert {call: fields - table for call, fields in given().items() if fields - table} == {}


def test_the_table_has_no_other() -> None:
    every = {field for fields in given().values() for field in fields}
    assert set(LOG_FIELDS) - OF_EVERY_LINE == every
