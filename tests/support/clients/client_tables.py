"""Tables of the pages of both clients: classes and fields of outcomes, exceptions, options.

They are read from the text of the sources: classes and docstrings in Python, JSDoc in JavaScript.
No module of a client is imported, because the environment of the documents has no `httpx`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from support.root import ROOT

PYTHON = ROOT / "clients" / "python" / "src" / "headgate_client"
JS = ROOT / "clients" / "js" / "src"
OUTCOMES = "outcomes.py"
# Members of each outcome that are the same for all events of its type.
CONSTANTS = {
    "name": ("str", "Name of the outcome, such as `published`."),
    "succeeded": ("bool", "False for `Rejected` and `Unknown`."),
    "retryable": ("bool", "Whether the same event may succeed later. False for a success."),
    "is_written": (
        "bool \\| None",
        "Whether the event, or an equal one, is in the topic at a known offset. "
        "None for `Unknown`.",
    ),
}
_JS_TYPES = {"str": "string", "bool": "boolean", "bool \\| None": "boolean \\| null"}
_UNITS = {
    "_s": "seconds", "Ms": "milliseconds", "_bytes": "bytes", "Bytes": "bytes",
    "_events": "events", "Events": "events", "in_flight": "requests", "inFlight": "requests",
}  # fmt: skip


def python() -> str:
    """Return the tables of the page of the Python client."""
    groups = [
        ("`Client`, `AsyncClient`", "wire.py", "ClientOptions"),
        ("`BufferedProducer`, `AsyncBufferedProducer`", "buffered.py", "ProducerOptions"),
        *((f"`{kind}`", "settings.py", kind) for kind in ("Retry", "Limits", "Buffering")),
    ]
    options = [
        (owner, name, _shown(_defaults(file, kind).get(name)), _values(file, kind, name), text)
        for owner, file, kind in groups
        for name, text in _described(file, kind).items()
    ]
    return _tables(_python_outcomes(), _python_fields(), ("Exceptions", _python_errors()), options)


def javascript() -> str:
    """Return the tables of the page of the JavaScript client."""
    options: list[tuple[str, str, str, str, str]] = []
    for owner, file, kind, constant in (
        ("`Client`", "wire.js", "WireOptions", ""),
        ("`Client`", "client.js", "OwnOptions", ""),
        ("`BufferedProducer`", "producer.js", "ProducerOptions", ""),
        ("`retry`", "settings.js", "Retry", "RETRY"),
        ("`limits`", "settings.js", "Limits", "LIMITS"),
        ("`buffering`", "settings.js", "Buffering", "BUFFERING"),
    ):
        source = (JS / file).read_text()
        options += (
            (
                owner,
                name,
                _js_default(source, name, constant),
                _js_values(source, name, js_type),
                text,
            )
            for name, js_type, text in _properties(source, kind)
        )
    return _tables(_js_outcomes(), _js_fields(), ("Errors", _js_errors()), options)


def _tables(
    outcomes: Iterable[tuple[str, str, str]],
    outcome_fields: Iterable[tuple[str, str, str, str]],
    errors: tuple[str, Iterable[tuple[str, str, str]]],
    options: Iterable[tuple[str, str, str, str, str]],
) -> str:
    """Return all tables of a page. errors: the heading, and class, base class and meaning."""
    rows = [
        (owner, f"`{name}`", default, values + _unit(name, values), text)
        for owner, name, default, values, text in options
    ]
    return (
        "### Classes of outcomes\n\n"
        + _table("class|`name`|meaning", outcomes)
        + "\n### Fields of an outcome\n\n"
        + _table("field|type|outcomes|meaning", outcome_fields)
        + f"\n### {errors[0]}\n\n"
        + _table("class|base class|meaning", errors[1])
        + "\n### Defaults of the options\n\n"
        + _table("owner|option|default|values|meaning", rows)
    )


def _table(columns: str, rows: Iterable[Iterable[str]]) -> str:
    heads = columns.split("|")
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _unit(name: str, values: str) -> str:
    """Return the unit behind a range, empty for other values."""
    is_range = values[:1].isdigit()
    return next((f" {unit}" for end, unit in _UNITS.items() if is_range and name.endswith(end)), "")


def _range(least: float, most: float | None) -> str:
    return f"{least:,g} or more" if most is None else f"{least:,g} to {most:,.0f}"


def _values(file: str, kind: str, name: str) -> str:
    """Return the range that the checks of an option allow, else its type."""
    checks: dict[str, ast.Call] = {}
    for node in ast.walk(_module(file) if kind == "ClientOptions" else _class(file, kind)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("check_") and node.args:
            checks.setdefault(ast.unparse(node.args[0]).strip("'"), node)
    check = checks.get(name)
    if check is not None and ast.unparse(check.func) in ("check_count", "check_number"):
        whole = ast.unparse(check.func) == "check_count"
        bounds = [_number(file, one) for one in check.args[2:]]
        return _range(*([1] if whole else bounds or [0]), *([None] if len(bounds) < 2 else []))
    annotation = ast.unparse(_fields(file, kind)[name].annotation)
    alias = _aliases(file).get(annotation, annotation)
    choices = re.fullmatch(r"Literal\[(.*)\]", alias)
    shown = " or ".join(f"`{one}`" for one in choices[1].split(", ")) if choices else f"`{alias}`"
    return shown.replace("`bool`", "`True` or `False`").replace("|", "\\|")


def _number(file: str, node: ast.expr) -> float:
    """Return a number, a product of numbers, or the value of a constant of the module."""
    for assignment in _module(file).body:
        if isinstance(assignment, ast.Assign) and ast.unparse(assignment.targets[0]) == ast.unparse(
            node
        ):
            return _number(file, assignment.value)
    if isinstance(node, ast.BinOp):
        return _number(file, node.left) * _number(file, node.right)
    return float(ast.literal_eval(node))


def _aliases(file: str) -> dict[str, str]:
    """Return the type aliases of a module and of those that it takes them from."""
    files = (file, "settings.py", "core/encode.py")
    return {name: ast.unparse(value) for one in files for name, value in _assigned(one).items()}


def _shown(default: ast.expr | None) -> str:
    if default is None:
        return "-"
    value = default.value if isinstance(default, ast.Constant) else None
    return f"`{value:_}`" if type(value) is int else f"`{ast.unparse(default)}`"


@cache
def _module(file: str) -> ast.Module:
    return ast.parse((PYTHON / file).read_text())


@cache
def _class(file: str, kind: str) -> ast.ClassDef:
    classes = (node for node in _module(file).body if isinstance(node, ast.ClassDef))
    return next(node for node in classes if node.name == kind)


def _fields(file: str, kind: str) -> dict[str, ast.AnnAssign]:
    """Return the annotated fields of a class, without class variables."""
    return {
        node.target.id: node
        for node in _class(file, kind).body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and "ClassVar" not in ast.unparse(node.annotation)
    }


def _assigned(file: str) -> dict[str, ast.expr]:
    """Return the annotated assignments of a module: constants and type aliases."""
    return {
        node.target.id: node.value
        for node in _module(file).body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.value is not None
    }


def _defaults(file: str, kind: str) -> dict[str, ast.expr]:
    """Return the defaults of a dataclass, or those of a typed dictionary from `DEFAULTS`."""
    constant = _assigned(file).get("DEFAULTS")
    if isinstance(constant, ast.Dict):
        return {
            str(ast.literal_eval(name)): value
            for name, value in zip(constant.keys, constant.values, strict=True)
            if name is not None
        }
    return {name: one.value for name, one in _fields(file, kind).items() if one.value is not None}


def _described(file: str, kind: str) -> dict[str, str]:
    """Return the names and texts of the sections Attributes and Keys of a docstring."""
    text = ast.get_docstring(_class(file, kind)) or ""
    section = re.search(r"^(?:Attributes|Keys):\n((?: +.*\n?|\n)+)", text, re.MULTILINE)
    items: dict[str, str] = {}
    name = ""
    for line in section[1].splitlines() if section else ():
        if item := re.match(r" {4}(\w+): (.*)", line):
            name = item[1]
            items[name] = item[2]
        elif line.strip():
            items[name] += " " + line.strip()
    return {name: text.replace("|", "\\|") for name, text in items.items()}


def _python_outcomes() -> Iterator[tuple[str, str, str]]:
    alias = ast.unparse(_assigned(OUTCOMES)["Outcome"])
    for kind in alias.split(" | "):
        node = _class(OUTCOMES, kind)
        values = {
            ast.unparse(one.target): one.value for one in node.body if type(one) is ast.AnnAssign
        }
        yield f"`{kind}`", f"`{ast.literal_eval(values['name'] or node)}`", _first_line(node)


def _first_line(node: ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").splitlines()[0]


def _python_errors() -> Iterator[tuple[str, str, str]]:
    for node in _module("errors.py").body:
        if isinstance(node, ast.ClassDef):
            yield f"`{node.name}`", f"`{ast.unparse(node.bases[0])}`", _first_line(node)


def _js_outcomes() -> Iterator[tuple[str, str, str]]:
    source = (JS / "outcomes.js").read_text()
    names = dict(re.findall(r'class (\w+) [^}]*?name = [^\n]*"(\w+)"', source))
    for kind, _, text in _js_classes(source):
        if kind in names:
            yield f"`{kind}`", f"`{names[kind]}`", text


def _js_errors() -> Iterator[tuple[str, str, str]]:
    for kind, base, text in _js_classes((JS / "errors.js").read_text()):
        yield f"`{kind}`", f"`{base}`", text


def _js_classes(source: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, base class and description of each exported class."""
    comment = r"/\*\*\s+(?:\* )?((?:(?!\*/).)*?)(?:\n \*\n(?:(?!\*/).)*|\s*)\*/\n"
    for text, kind, base in re.findall(
        comment + r"export class (\w+) extends (\w+)", source, re.DOTALL
    ):
        yield kind, base, " ".join(text.replace("\n *", " ").split())


def _python_fields() -> Iterator[tuple[str, str, str, str]]:
    for name, (kind, text) in CONSTANTS.items():
        yield f"`{name}`", f"`{kind}`", "all", text
    for name, kind, owners, text in _own_fields():
        yield f"`{name}`", f"`{kind}`", owners, text


def _own_fields() -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, outcomes and meaning of each field of the dataclasses."""
    described = {kind: _described(OUTCOMES, kind) for kind in ("Succeeded", "Rejected", "Unknown")}
    kinds = {kind: _fields(OUTCOMES, kind) for kind in described}
    for name in dict.fromkeys(name for of_kind in kinds.values() for name in of_kind):
        if name in CONSTANTS:
            continue
        owners = [kind for kind in kinds if name in kinds[kind]]
        texts = {kind: described[kind].get(name, "") for kind in owners}
        common = next(text for text in texts.values() if text)
        for text in dict.fromkeys(text or common for text in texts.values()):
            of_text = [kind for kind in owners if (texts[kind] or common) == text]
            yield name, _type_text(kinds[of_text[0]][name].annotation), _owners(of_text), text


def _owners(kinds: list[str]) -> str:
    if len(kinds) == 3:
        return "all"
    return ", ".join("successes" if kind == "Succeeded" else f"`{kind}`" for kind in kinds)


def _type_text(annotation: ast.expr) -> str:
    if isinstance(annotation, ast.Name):  # an alias shows the types that it stands for
        annotation = _assigned(OUTCOMES).get(annotation.id, annotation)
    return ast.unparse(annotation).replace("|", "\\|")


def _js_fields() -> Iterator[tuple[str, str, str, str]]:
    for name, (kind, text) in CONSTANTS.items():
        yield f"`{_camel(name)}`", f"`{_JS_TYPES[kind]}`", "all", text.replace("None", "Null")
    source = (JS / "outcomes.js").read_text()
    owners: dict[str, list[str]] = {}
    rows: dict[str, tuple[str, str]] = {}
    for kind, owner in (
        ("Place", "successes"), ("Why", "`Rejected`, `Unknown`"), ("Figures", "`Rejected`"),
    ):  # fmt: skip
        for name, js_type, text in _properties(source, kind):
            if not any(owner in one for one in owners.get(name, ())):
                owners.setdefault(name, []).append(owner)
            if name not in rows or not rows[name][1]:
                rows[name] = js_type, text
    for name, (js_type, text) in rows.items():
        of_field = "all" if len(owners[name]) == 2 else owners[name][0]
        yield f"`{name}`", f"`{js_type}`", of_field, text


def _properties(source: str, kind: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and text of each property of a typedef."""
    comment = re.search(
        rf"/\*\*(?:(?!\*/).)*@typedef {{object}} {kind}\b(.*?)\*/", source, re.DOTALL
    )
    assert comment is not None, kind
    text = re.sub(r"\n \* {3}", " ", comment[1])
    for js_type, name, meaning in re.findall(r"@property {(.*?)} \[?(\w+)\]? ?(.*)", text):
        yield name, js_type.replace("|", "\\|"), meaning.strip().replace("|", "\\|")


def _js_default(source: str, name: str, constant: str) -> str:
    """Return the default: a member of the constant, or that of a destructuring."""
    pattern = rf"[{{,]\s*{name} = ([\w.]+)\s*[,}}]"
    if constant:
        members = re.search(rf"const {constant} = {{(.*?)\n?}};", source, re.DOTALL)
        assert members is not None, constant
        source = members[1] + ","
        pattern = rf"\b{name}: ([^,\s]+)\s*,"
    default = re.search(pattern, source)
    if default is None:
        return "`{}`" if name in ("retry", "limits", "buffering") else "-"
    value = re.search(rf"^const {default[1]} = ([\w.]+);", source, re.MULTILINE)
    return f"`{value[1] if value else default[1]}`"


def _js_values(source: str, name: str, js_type: str) -> str:
    """Return the range that the checks of an option allow, else its type."""
    check = re.search(rf'checkNumber\("(?:\w+\.)?{name}", [\w.]+, (\w+)(?:, (\w+))?\)', source)
    if check is not None:
        least, most = (_js_number(source, one) if one else None for one in check.groups())
        return _range(least or 0, most)
    if re.search(rf"checkCounts\([^)]*\b{name}\b", source):
        return _range(1, None)
    if js_type == "boolean":
        return "`true` or `false`"
    return (
        " or ".join(f"`{one}`" for one in js_type.split(" \\| "))
        if '"' in js_type
        else f"`{js_type}`"
    )


def _js_number(source: str, text: str) -> float:
    """Return a number, or the value of a constant of the module."""
    constant = re.search(rf"^const {text} = ([\d_ *]+);", source, re.MULTILINE)
    factors = (constant[1] if constant else text).replace("_", "").split("*")
    product = 1.0
    for factor in factors:
        product *= float(factor)
    return product


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda letter: letter[1].upper(), name)


BLOCKS: Mapping[str, Any] = {"publish/python.md": python, "publish/javascript.md": javascript}
