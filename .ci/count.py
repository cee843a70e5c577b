"""Count how large and how plain the code is: `make count`.

The figures are files, code lines, small files, Protocol classes, uses of other libraries' private
attributes, and words in names and docstrings; docs/design/index.md shows some of them. They are of
the gateway; vague names are also counted in the Spark jobs and in the Python client.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GATEWAY = ROOT / "gateway" / "headgate"
JOBS = ROOT / "spark" / "headgate_spark"
CLIENT = ROOT / "clients" / "python" / "src"
SMALL_LINES = 40
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
VAGUE_NAMES = {
    "one", "found", "place", "known", "mine", "there", "told", "asked", "left", "whole",
}  # fmt: skip
# First words of docstrings that are neither a verb nor the beginning of a noun phrase.
NOT_FIRST = {
    "after", "and", "as", "at", "because", "before", "but", "by", "for", "from", "how", "if", "in",
    "like", "nobody", "not", "of", "on", "or", "see", "so", "somebody", "than", "that", "then",
    "there", "these", "they", "this", "those", "to", "until", "what", "whatever", "when",
    "where", "whether", "which", "while", "who", "whoever", "whose", "why", "with",
}  # fmt: skip
TELLING = re.compile(r"\b(?:tells?|told|telling|hears?|heard)\b", re.IGNORECASE)
PEOPLE = re.compile(r"\b(?:nobody|somebody|whoever)\b", re.IGNORECASE)
NAMED_TUPLE = {"_asdict", "_replace", "_fields", "_make"}


def python_files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*.py")) if "__pycache__" not in path.parts]


def code_lines(source: str) -> int:
    """Count lines that hold code: no blanks, comments and docstrings."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and is_text(body[0]):
            documented.update(range(body[0].lineno, body[0].end_lineno + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def own_private_names(folder: Path) -> set[str]:
    """Return the names with a leading underscore that the package itself defines."""
    names: set[str] = set()
    for path in python_files(folder):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
                if isinstance(node, ast.Name):
                    names.add(node.id)
                elif isinstance(node.value, ast.Name) and node.value.id == "self":
                    names.add(node.attr)
    return {name for name in names if name.startswith("_")}


def foreign_private_lines(tree: ast.AST, own: set[str]) -> set[int]:
    """Return the lines that use a private attribute of another library's object.

    A private name is taken as foreign if nothing in the package defines it.
    """
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
            continue
        if node.attr.startswith("__") or node.attr in NAMED_TUPLE or node.attr in own:
            continue
        lines.add(node.lineno)
    return lines


def protocols(tree: ast.AST) -> int:
    return sum(
        isinstance(node, ast.ClassDef)
        and any("Protocol" in (ast.unparse(base).split("[")[0]).split(".") for base in node.bases)
        for node in ast.walk(tree)
    )


def bound_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def docstrings(tree: ast.AST) -> Iterator[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, kinds) else None
        if text:
            yield text


def comments(source: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def is_plain(docstring: str) -> bool:
    words = re.findall(r"[A-Za-z']+", docstring)
    return not words or words[0].lower() not in NOT_FIRST


def count(folder: Path) -> Counter[str]:
    """Count the figures of one folder."""
    figures: Counter[str] = Counter()
    own = own_private_names(folder)
    for path in python_files(folder):
        source = path.read_text()
        tree = ast.parse(source)
        lines = code_lines(source)
        texts = list(docstrings(tree))
        prose = "\n".join((*texts, *comments(source)))
        figures["files"] += 1
        figures["code lines"] += lines
        figures["small files"] += len(
            source.splitlines()
        ) < SMALL_LINES and not path.name.startswith("__")
        figures["protocols"] += protocols(tree)
        figures["vague names"] += sum(name in VAGUE_NAMES for name in bound_names(tree))
        figures["docstrings"] += len(texts)
        figures["docstrings not plain"] += sum(not is_plain(text) for text in texts)
        figures["tell and hear"] += len(TELLING.findall(prose))
        figures["nobody and whoever"] += len(PEOPLE.findall(prose))
        foreign = foreign_private_lines(tree, own)
        figures["aiohttp private lines"] += len(foreign) if "aiohttp" in source else 0
        figures["aiokafka private files"] += bool(foreign) and "aiokafka" in source
    return figures


def main() -> None:
    folder = ROOT / sys.argv[1] if len(sys.argv) > 1 else GATEWAY
    figures = count(folder)
    if folder == GATEWAY:
        jobs, client = count(JOBS), count(CLIENT)
        others = jobs["protocols"] + client["protocols"]
        figures["protocols with jobs and client"] = figures["protocols"] + others
        figures["vague names of spark"] = jobs["vague names"]
        figures["vague names of clients/python"] = client["vague names"]
    for name, value in figures.items():
        sys.stdout.write(f"{name:32} {value:7,}\n")
    share = figures["docstrings not plain"] / max(1, figures["docstrings"])
    sys.stdout.write(f"{'docstrings not plain, share':32} {share:7.1%}\n")


if __name__ == "__main__":
    main()
