"""The tables of the pages of both clients name every class, field of an outcome, and option."""

from __future__ import annotations

import json
import re
import subprocess
from typing import get_args

import pytest

import headgate_client
from headgate_client import Client, InvalidOptionError, Outcome, Rejected, Unknown
from headgate_client.settings import Buffering, Limits, Retry
from headgate_client.wire import OPTIONS
from support.clients import client_tables
from support.clients.node import NODE, PACKAGE, needs_node

JS = """
import { Published, Rejected, Unknown } from "PACKAGE/src/index.js";
import { bufferingOf, limitsOf, retryOf } from "PACKAGE/src/settings.js";
const fields = (Kind) => [...Object.keys(new Kind({ topic: "t" })), "isWritten"];
const kinds = { successes: Published, "`Rejected`": Rejected, "`Unknown`": Unknown };
const found = Object.entries(kinds).map(([name, Kind]) => [name, fields(Kind)]);
const defaults = { retry: retryOf(), limits: limitsOf(), buffering: bufferingOf() };
console.log(JSON.stringify({ fields: Object.fromEntries(found), defaults }));
"""


def rows(tables: str, head: str) -> list[list[str]]:
    """The rows of the table that begins so."""
    (table,) = re.findall(rf"^\| {head} \|.*\n(?:\|.*\n?)+", tables, re.MULTILINE)
    cells = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in table.splitlines()[2:]]
    return [[cell.strip("`") if at < 3 else cell for at, cell in enumerate(row)] for row in cells]


def fields_of(tables: str, owner: str) -> set[str]:
    found = rows(tables, "field")
    return {row[0] for row in found if row[2] == "all" or owner in f"`{row[2]}`"}


OUTCOMES, ERRORS = r"class \| `name`", r"class \| base class"


def test_the_tables_have_every_class_of_python() -> None:
    tables = client_tables.python()
    outcomes = [[kind.__name__, kind.name] for kind in get_args(Outcome)]
    assert [row[:2] for row in rows(tables, OUTCOMES)] == outcomes
    public = {name: getattr(headgate_client, name) for name in headgate_client.__all__}
    errors = {
        (name, kind.__bases__[0].__name__)
        for name, kind in public.items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert {(name, base) for name, base, _ in rows(tables, ERRORS)} == errors


def test_the_tables_of_javascript_have_the_classes_that_it_exports() -> None:
    tables, source = client_tables.javascript(), (PACKAGE / "src" / "index.js").read_text()
    for head, file in ((OUTCOMES, "outcomes"), (ERRORS, "errors")):
        (exported,) = re.findall(
            rf'^export \{{([^}}]*)\}} from "\./{file}\.js"', source, re.MULTILINE
        )
        assert {row[0] for row in rows(tables, head)} == set(re.findall(r"\w+", exported))
    python = client_tables.python()
    assert rows(tables, OUTCOMES) == rows(python, OUTCOMES)
    assert [row[0] for row in rows(tables, ERRORS)] == [row[0] for row in rows(python, ERRORS)]


@pytest.mark.parametrize("kind", get_args(Outcome))
def test_the_table_has_every_field_of_each_outcome_of_python(kind: type[Outcome]) -> None:
    public = {name for name in dir(kind) if not name.startswith("_")} - {"raise_for_outcome"}
    owner = f"`{kind.__name__}`" if kind in (Rejected, Unknown) else "successes"
    assert fields_of(client_tables.python(), owner) == public


def test_the_table_has_every_option_of_python() -> None:
    options = {(row[0], row[1]): row[2] for row in rows(client_tables.python(), "owner")}
    clients = {name for owner, name in options if owner.startswith("Client")}
    assert clients == set(OPTIONS) - {"transport"}
    for group in (Retry(), Limits(), Buffering()):
        for name in type(group).__dataclass_fields__:
            shown = options[type(group).__name__, name]
            assert shown.replace("_", "") == repr(getattr(group, name)).replace("_", "")


def test_the_tables_have_the_range_of_every_number() -> None:
    python = {(row[0], row[1]): row[3] for row in rows(client_tables.python(), "owner")}
    javascript = {(row[0], row[1]): row[3] for row in rows(client_tables.javascript(), "owner")}
    for (owner, option), values in {
        ("Client`, `AsyncClient", "timeout_s"): "0.001 to 3,600 seconds",
        ("Client`, `AsyncClient", "compression"): "`'gzip'` or `'zstd'`",
        ("BufferedProducer`, `AsyncBufferedProducer", "when_full"): "`'wait'` or `'raise'`",
        ("Retry", "patience_s"): "0 to 82,800 seconds",
        ("Retry", "first_wait_s"): "0 or more seconds",
        ("Retry", "overtaken"): "`'send'` or `'leave_out'`",
        ("Buffering", "in_flight"): "1 or more requests",
    }.items():
        assert python[owner, option] == values
    for (owner, option), values in {
        ("Client", "timeoutMs"): "1 to 3,600,000 milliseconds",
        ("retry", "patienceMs"): "0 to 82,800,000 milliseconds",
        ("buffering", "lingerMs"): "0 or more milliseconds",
        ("limits", "maxBytes"): "1 or more bytes",
        ("retry", "overtaken"): '`"send"` or `"leave_out"`',
    }.items():
        assert javascript[owner, option] == values
    with pytest.raises(InvalidOptionError, match="0 to 82800"):
        Retry(patience_s=82_801)
    with pytest.raises(InvalidOptionError, match=r"0.001 to 3600"):
        Client("http://headgate.test", timeout_s=3601)


@needs_node
def test_the_tables_of_javascript_are_true() -> None:
    script = JS.replace("PACKAGE", str(PACKAGE))
    command = [str(NODE), "--input-type=module", "--eval", script]
    said = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    tables = client_tables.javascript()
    for owner, names in said["fields"].items():
        assert fields_of(tables, owner) == set(names)
    options = {(row[0], row[1]): row[2] for row in rows(tables, "owner")}
    for group, defaults in said["defaults"].items():
        for name, value in defaults.items():
            assert json.loads(re.sub(r"(?<=\d)_", "", options[group, name])) == value
    source = (PACKAGE / "src" / "client.js").read_text()
    (listed,) = re.findall(r"^const OPTIONS = \[(.*?)\];", source, re.MULTILINE | re.DOTALL)
    assert {name for owner, name in options if owner == "Client"} == set(
        re.findall(r'"(\w+)"', listed)
    )
    assert options["Client", "timeoutMs"] == "45_000"
