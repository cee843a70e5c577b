"""Writes what the documents take from the code; `make docs` runs it before it builds the site.

A page holds a generated block between two comments: `<!-- generated: NAME -->` and
`<!-- end of NAME -->`. The rest of the page is written by hand. Generated as a whole are
deploy/config/reference.toml, the manual pages in deploy/man, the changelogs in clients/, and the
chart's copies of the alerts.
tests/test_docs.py fails when anything here is out of date.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson
import yaml

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[:0] = [
        str(ROOT / folder) for folder in ("gateway", "spark", "tests", "clients/python/src")
    ]

import headgate.cli  # noqa: E402
import headgate_spark.cli  # noqa: E402
from headgate.commands.completion import (  # noqa: E402
    Argument,
    Command,
    command_of,
)
from headgate.config.reference import reference_markdown, reference_toml  # noqa: E402
from headgate.config.settings import HttpSettings  # noqa: E402
from headgate.http.openapi.document import document  # noqa: E402
from headgate.metrics.catalogue import METRICS, MetricKind  # noqa: E402
from headgate.metrics.logs import LOG_FIELDS  # noqa: E402
from headgate.model.outcome import TRAITS  # noqa: E402
from manual_page import man_page  # noqa: E402
from support.clients import client_tables  # noqa: E402
from support.clients.peers_produce import tables as peers_produce  # noqa: E402

REFERENCE = ROOT / "deploy" / "config" / "reference.toml"
DASHBOARDS = ROOT / "deploy" / "grafana" / "dashboards"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
CHART = ROOT / "deploy" / "helm" / "headgate"
PROGRAMS = tuple(command_of(cli.parser()) for cli in (headgate.cli, headgate_spark.cli))
_GAUGES = {
    MetricKind.SUM: "gauge, sum of the workers",
    MetricKind.MAX: "gauge, largest of the workers",
}
_PORTS = {"management": "management port", "both": "both ports"}

Json = dict[str, Any]


def table(columns: str, rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table. columns: the heads, separated by `|`."""
    heads = columns.split("|")
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def metrics() -> str:
    """Every metric with its labels."""
    return table(
        "metric|labels|kind|meaning",
        (
            (
                f"`{metric.name}`",
                ", ".join(f"`{label}`" for label in metric.labels) or "-",
                _GAUGES.get(metric.kind, str(metric.kind)),
                metric.text,
            )
            for metric in METRICS.values()
        ),
    )


def log_fields() -> str:
    """Every field of the log."""
    rows = ((f"`{name}`", field.kind, field.text) for name, field in LOG_FIELDS.items())
    return table("field|type|meaning", rows)


def reasons() -> str:
    """What a sender should do, by status and reason."""
    return table(
        "status|reason|retry|meaning, and what to do",
        (
            (
                str(traits.status),
                f"`{reason}`",
                "yes" if traits.retryable else "no",
                f"{traits.title}. {traits.advice}",
            )
            for reason, traits in TRAITS.items()
        ),
    )


def commands() -> str:
    """Every command of both programs, with arguments, options and examples."""
    shown: set[str] = set()
    return "\n".join(
        text for root in PROGRAMS for command in root.every() for text in _command(command, shown)
    )


def _command(command: Command, shown: set[str]) -> Iterator[str]:
    """As tables: argparse changes the layout of its help. `shown` has the examples so far."""
    yield f"{'#' * (1 + len(command.words))} {' '.join(command.words)}\n"
    if command.purpose:
        yield f"{command.purpose}\n"
    if rows := [_argument(each) for each in command.arguments if "--help" not in each.names]:
        yield table("argument|meaning", rows)
    lines = set(command.text.splitlines())  # an action has some of those of its command
    if command.text and not any(lines <= set(text.splitlines()) for text in shown):
        shown.add(command.text)
        yield f"```text\n{command.text}\n```\n"


def _argument(argument: Argument) -> tuple[str, str]:
    name = ", ".join(f"{one} {argument.value}".strip() for one in argument.names)
    required = " (required)" if argument.is_required else ""
    return f"`{name or argument.value}`", f"{argument.text}{required}".replace("|", r"\|")


def http() -> str:
    """Credentials, headers and operations of the OpenAPI document, then the schemas."""
    api = orjson.loads(document(HttpSettings()))
    schemes, headers = api["components"]["securitySchemes"], api["components"]["headers"]
    parts = [
        "## Credentials\n",
        table("scheme|meaning", ((f"`{s['scheme']}`", s["description"]) for s in schemes.values())),
        "## Headers of responses\n",
        table(
            "header|meaning|example",
            ((f"`{n}`", one["description"], f"`{one['example']}`") for n, one in headers.items()),
        ),
    ]
    for tag in api["tags"]:
        parts.append(f"## {tag['name']}\n\n{tag['description']}\n")
        for path, methods in api["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    parts += _operation(f"{method.upper()} {path}", operation)
    parts.append("## Schemas\n")
    for name, schema in api["components"]["schemas"].items():
        parts.append(f"### {name}\n")
        if "description" in schema:
            parts.append(f"{schema['description']}\n")
        parts.append(_schema(schema))
        examples = [*schema.get("examples", ()), *_examples(api, name)]
        parts += (f"```json\n{_json(one)}\n```\n" for one in examples[:1])
    return "\n".join(parts)


def _examples(api: Json, schema: str) -> Iterator[Json]:
    """Yield the examples of request bodies with this schema."""
    for methods in api["paths"].values():
        for operation in methods.values():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                if media["schema"].get("$ref", "").endswith(f"/{schema}") and "example" in media:
                    yield media["example"]


def _operation(name: str, operation: Json) -> Iterator[str]:
    where = _PORTS.get(operation["x-headgate-port"], "data port")
    yield f"### `{name}`\n\n{operation['summary']} ({where}).\n"
    if "description" in operation:
        yield f"{operation['description']}\n"
    if found := operation.get("parameters"):
        rows = (
            (f"`{one['name']}`", one["in"], one["description"], _kind(one["schema"]))
            for one in found
        )
        yield table("parameter|where|meaning|value", rows)
    if "requestBody" in operation:
        yield table("body|content", _contents(operation["requestBody"]))
    yield table(
        "answer|meaning|body",
        (
            (
                status,
                # each of several reasons on a line of its own
                one["description"].replace(". `", ".<br>`"),
                ", ".join(kind for _, kind in _contents(one)) or "-",
            )
            for status, one in operation["responses"].items()
        ),
    )
    yield f"**Example:**\n\n{_example(name, operation)}"


def _example(name: str, operation: Json) -> str:
    """Return a request and its response."""
    query = []
    for one in operation.get("parameters", ()):
        if "example" in one and one["in"] == "path":
            name = name.replace(f"{{{one['name']}}}", str(one["example"]))
        elif "example" in one:
            query.append(f"{one['name']}={one['example']}")
    request = [name + ("?" + "&".join(query) if query else "")]
    for kind, media in operation.get("requestBody", {"content": {}})["content"].items():
        if "example" in media:
            request += [f"Content-Type: {kind}", "", _json(media["example"])]
            break
    status, kind, example = max(
        (status, kind, media["example"])
        for status, one in operation["responses"].items()
        for kind, media in one.get("content", {}).items()
        if "example" in media and status in ("200", "201")
    )
    kinds = [] if kind == "*/*" else [f"Content-Type: {kind}"]
    response = [f"HTTP/1.1 {status} {HTTPStatus(int(status)).phrase}", *kinds, "", _json(example)]
    return "\n".join(["```http", *request, "```\n", "```http", *response, "```\n"])


def _json(value: Any, indent: int = 0, width: int = 100) -> str:
    """Return an example: a text as it is, and JSON with a line for each member that is long."""
    if isinstance(value, str) and not indent:
        return value.rstrip()
    text = json.dumps(value, ensure_ascii=False)
    if len(text) + indent <= width or not isinstance(value, dict | list) or not value:
        return text
    if isinstance(value, dict):
        items = [
            f"{json.dumps(name)}: {_json(one, indent + len(name) + 5, width)}"
            for name, one in value.items()
        ]
        ends = "{}"
    else:
        items = [_json(one, indent + 1, width) for one in value]
        ends = "[]"
    lines, gap = [""], "\n" + " " * (indent + 1)
    for item in items:
        is_short = len(lines[-1]) + len(item) + indent + 3 <= width and "\n" not in item
        if lines[-1] and is_short:
            lines[-1] += f", {item}"
        else:
            lines.append(item)
    return ends[0] + f",{gap}".join(line for line in lines if line) + ends[1]


def _contents(one: Json) -> list[tuple[str, str]]:
    found = one.get("content", {}).items()
    return [(f"`{name}`", _kind(media["schema"])) for name, media in found]


def _schema(schema: Json) -> str:
    """An object's members as a table, anything else in a few words."""
    if "properties" not in schema:
        return f"{_kind(schema)}\n"
    return table("member|value|always|meaning", _members(schema, ""))


def _members(schema: Json, prefix: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield the members of an object, and those of objects in it: `events[].key`."""
    required = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        always = "yes" if name in required else "no"
        yield f"`{prefix}{name}`", _kind(one), always, one.get("description", "")
        inner = one.get("items", one)
        path = f"{prefix}{name}{'[]' if 'items' in one else ''}."
        for each in inner.get("allOf", (inner,)):
            yield from _members(each, path)


def _kind(schema: Json) -> str:
    """A schema in a few words, with links to those that have a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(map(_kind, schema[word]))
    if "allOf" in schema:
        return " and ".join(map(_kind, schema["allOf"]))
    if "enum" in schema:
        return ", ".join(f"`{orjson.dumps(one).decode()}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{orjson.dumps(schema['const']).decode()}`"
    kinds = schema.get("type", "anything")
    every = [kinds] if isinstance(kinds, str) else kinds
    items = f" of {_kind(schema['items'])}" if "items" in schema else ""
    return " or ".join(each + items if each == "array" else each for each in every)


def alerts() -> Iterator[tuple[str, Json]]:
    """Every alert with its page, a path below docs/ without `.md`: by its group and its name."""
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        folder = group["name"].removeprefix("headgate-")
        for rule in group["rules"]:
            name = re.sub("(?<=[a-z])(?=[A-Z])", "-", rule["alert"].removeprefix("Headgate"))
            yield f"operate/runbooks/{folder}/{name.lower()}", rule


def alert(rule: Json) -> str:
    """When an alert fires."""
    when = f"once this has held for {rule['for']}" if "for" in rule else "as soon as this holds"
    head = f"Severity `{rule['labels']['severity']}`. It fires {when}:"
    if kept := rule.get("keep_firing_for"):
        head = f"{head[:-1]}, and ends when this has not held for {kept}:"
    return f"{head}\n\n```promql\n{' '.join(rule['expr'].split())}\n```"


def runbooks() -> str:
    """Every alert in a table for each group."""
    rows: dict[str, list[tuple[str, str, str]]] = {}
    for page, rule in alerts():
        folder, _, name = page.removeprefix("operate/runbooks/").partition("/")
        summary = re.sub(r"{{ \$(?:labels\.)?(\w+)[^}]*}}", r"*\1*", rule["annotations"]["summary"])
        link = f"[{rule['alert']}]({folder}/{name}.md)"
        rows.setdefault(folder, []).append((link, rule["labels"]["severity"], summary))
    parts = (
        f"### {one.capitalize()}\n\n{table('alert|severity|summary', rows[one])}" for one in rows
    )
    return "\n".join(parts)


def dashboards() -> str:
    """Every dashboard, and what it is about."""
    boards = {file.name: orjson.loads(file.read_bytes()) for file in DASHBOARDS.glob("*.json")}
    rows = (
        (f"`dashboards/{name}`", board["title"].rpartition("/ ")[2], board["description"])
        for name, board in sorted(boards.items(), key=lambda item: item[1]["uid"])
    )
    return table("file|dashboard|answers", rows)


def chart_values() -> str:
    """Return the chart's values as a table. The comment above a value is its description."""
    text = (CHART / "values.yaml").read_text()
    rows, section, comment = [], "", ""
    for line in text.partition("\n\n")[2].splitlines():
        if found := re.match(r"( *)# (.+)", line):
            comment = found[2]
        elif found := re.match(r"( {0,2})(\w+):", line):
            name = f"{section}.{found[2]}" if found[1] else found[2]
            if not found[1]:
                section = found[2]
            if comment:
                rows.append((f"`{name}`", comment.replace("|", r"\|"), _chart_default(name)))
            comment = ""
    return table("value|meaning|default", rows)


def _chart_default(name: str) -> str:
    value = yaml.safe_load((CHART / "values.yaml").read_text())
    for part in name.split("."):
        value = value[part]
    if isinstance(value, str) and "\n" in value:
        return "an example"
    return f"`{orjson.dumps(value).decode()}`"


def _path(name: str) -> str:
    path = ROOT / "gateway" / "headgate" / name.replace(".", "/")
    return f"`{name}/`" if path.is_dir() else f"`{name.replace('.', '/')}.py`"


def packages() -> str:
    """Return the gateway's packages, lowest first, and their imports (tests/test_layers.py)."""
    text = (ROOT / "tests" / "test_layers.py").read_text()
    (node,) = (
        each.value
        for each in ast.parse(text).body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "ALLOWED"
    )
    rows = []
    for name, names in ast.literal_eval(ast.unparse(node).replace("set()", "()")).items():
        file = ROOT / "gateway" / "headgate" / name / "__init__.py"
        if file.is_file():
            (first, *_) = (ast.get_docstring(ast.parse(file.read_text())) or "").splitlines()
            others = sorted(_path(each) for each in names if each not in (name, "__version__"))
            rows.append((f"`{name}/`", first, ", ".join(others) or "nothing"))
    return table("package|contents|may import", rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "design/index.md": packages,
    "reference/options.md": reference_markdown,
    "reference/metrics.md": metrics,
    "reference/reasons.md": reasons,
    "reference/commands.md": commands,
    "reference/http.md": http,
    "publish/peers-produce-cases.md": peers_produce,
    **client_tables.BLOCKS,
    "operate/logs.md": log_fields,
    "operate/monitor.md": dashboards,
    "operate/runbooks/index.md": runbooks,
    **{f"{page}.md": partial(alert, rule) for page, rule in alerts()},
}


def with_block(page: str, name: str, block: str) -> str:
    """The page with its generated block replaced; the two comments must be there."""
    start, end = f"<!-- generated: {name} -->\n", f"<!-- end of {name} -->\n"
    found = re.compile(f"{re.escape(start)}.*{re.escape(end)}", re.DOTALL)
    if len(found.findall(page)) != 1:
        raise ValueError(f"{name}.md has no generated block")
    return found.sub(lambda _: f"{start}\n{block.rstrip()}\n\n{end}", page)


def client_changelog() -> str:
    """Return the changelog of the packages of the clients: their groups of CHANGELOG.md."""
    parts = [
        "# Changelog of the clients\n\n"
        "The clients have the version numbers of the gateway, whose changes are in the\n"
        "[whole changelog](https://github.com/headgate/headgate/blob/main/CHANGELOG.md)."
    ]
    changes = (ROOT / "CHANGELOG.md").read_text()
    for version in re.split(r"^(?=## )", changes, flags=re.MULTILINE)[1:]:
        parts.append(version.partition("\n")[0])
        for section in re.split(r"^(?=### )", version, flags=re.MULTILINE)[1:]:
            group = re.search(r"^Client libraries:\n\n((?:(?:- |  ).*\n)+)", section, re.MULTILINE)
            if group is not None:
                parts += [section.partition("\n")[0], group[1].rstrip()]
    return "\n\n".join(parts) + "\n"


def generated() -> Iterator[tuple[Path, str]]:
    """Every file with something generated, as it should be."""
    yield REFERENCE, reference_toml()
    for root in PROGRAMS:
        yield ROOT / "deploy" / "man" / f"{root.name}.1", man_page(root, headgate.__version__)
    for name, make in BLOCKS.items():
        page = ROOT / "docs" / name
        yield page, with_block(page.read_text(), page.stem, make())
    readme = CHART / "README.md"
    yield readme, with_block(readme.read_text(), "values", chart_values())
    for client in ("python", "js"):
        yield ROOT / "clients" / client / "CHANGELOG.md", client_changelog()
    for name in ("alerts.yml", "recording.yml"):
        yield CHART / "files" / name, (ALERTS.parent / name).read_text()


if __name__ == "__main__":
    for path, text in generated():
        path.write_text(text)
