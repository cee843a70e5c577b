"""`make test-compiled` must not silently run the sources."""

import ast
import os
import re
from importlib import import_module
from pathlib import Path

from support.root import ROOT

GATEWAY = ROOT / "gateway" / "headgate"
HOT = (
    "model.route",
    "ingest.path",
    "ingest.complete",
    "suppression.reservations",
    "kafka.lane",
    "metrics.meter",
)


def test_the_modules_are_what_this_run_is_for() -> None:
    wanted = ".so" if os.environ.get("EXPECT_COMPILED") == "1" else ".py"
    for name in HOT:
        found = import_module(f"headgate.{name}").__file__
        assert found is not None
        assert Path(found).suffix == wanted, name


def compiled_modules() -> set[str]:
    """Return paths below the package, without the ending."""
    listed = re.search(r'HOT = """(.*?)"""', (ROOT / "setup.py").read_text(), re.DOTALL)
    assert listed is not None
    modules = set()
    for name in listed[1].split():
        files = list((GATEWAY / name).glob("[!_]*.py")) or [GATEWAY / f"{name}.py"]
        modules |= {
            path.relative_to(GATEWAY).with_suffix("").as_posix()
            for path in files
            if not path.read_text().startswith("# Not compiled: ")
        }
    return modules


def test_each_package_with_a_compiled_module_is_tested_compiled() -> None:
    makefile = (ROOT / "Makefile").read_text()
    units = re.search(r"^COMPILED_UNITS := (.*)$", makefile, re.MULTILINE)
    assert units is not None
    listed = {*units[1].split(), *re.findall(r"tests/unit/(\w+)/", makefile)}
    assert {name.partition("/")[0] for name in compiled_modules()} <= listed


def bare_name(base: ast.expr) -> str:
    """Without its module and what it is generic over."""
    return ast.unparse(base).partition("[")[0].rpartition(".")[2]


def test_no_class_outside_inherits_from_a_compiled_one() -> None:
    """mypyc lets its constructor refuse such an object, when the first one is made."""
    compiled, others = compiled_modules(), set()
    names: set[str] = set()
    for path in GATEWAY.rglob("*.py"):
        module = path.relative_to(GATEWAY).with_suffix("").as_posix()
        classes = [
            one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.ClassDef)
        ]
        if module in compiled:
            names |= {one.name for one in classes}
        else:
            others |= {
                (one.name, bare_name(base))
                for one in classes
                for base in one.bases
                if not ast.unparse(base).startswith("web.")  # aiohttp's
            }
    assert {pair for pair in others if pair[1] in names} == set()
