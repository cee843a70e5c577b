"""The log field `logger` names the package that logs, so that files may move within it."""

import ast
from collections.abc import Iterator
from pathlib import Path

from headgate.metrics import logs
from support.root import ROOT

# Streams that users filter by (docs/operate/logs.md), and loggers of libraries.
STREAMS = {
    "headgate.access", "headgate.attempts", "headgate.changes", "headgate.requests",
    "headgate.spool", "aiokafka", "headgate",
    "library_lines.py: logger",  # of the library whose line it repeats
}  # fmt: skip


def is_naming(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "getLogger"
    )


def named(path: Path) -> Iterator[str]:
    """The names of the loggers that a file asks for; where it is not a fixed word, the code."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text)) if "getLogger" in text else ():
        if is_naming(node):
            assert isinstance(node, ast.Call)
            for argument in node.args:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value)
                else:
                    code = ast.unparse(argument)
                    yield getattr(logs, code, f"{path.name}: {code}")


def test_a_logger_has_the_name_of_its_package() -> None:
    for root in (ROOT / "gateway" / "headgate", ROOT / "spark" / "headgate_spark"):
        for path in root.rglob("*.py"):
            package = f"{root.name}.{path.relative_to(root).parts[0]}"
            assert {*named(path)} <= {package} | STREAMS, path
