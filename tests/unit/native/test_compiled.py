"""`make test-compiled` must not silently run the sources."""

import ast
import os
import re
import sys
import tomllib
from importlib import import_module
from importlib.metadata import packages_distributions
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


def imports(name: str) -> set[str]:
    """Return the modules that a module imports anywhere, for annotations alone, too."""
    path = ROOT / "gateway" / name.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.is_file():  # C, with types in a stub
        return set()
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            modules.add(node.module)
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            modules |= {name for name in inner if is_module(name)}
    return modules


def is_module(name: str) -> bool:
    path = ROOT / "gateway" / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def plain_name(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def test_compiling_needs_no_optional_package() -> None:
    """mypyc reads the types of all that the compiled modules import, and what that imports. A
    build has the dependencies without the extras: with another module every new machine fails."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    required = project["project"]["dependencies"]
    distributions = {plain_name(re.split(r"[\[~><=;]", each)[0]) for each in required}
    untyped = {
        module.removesuffix(".*")
        for override in project["tool"]["mypy"]["overrides"]
        for module in override["module"]
        if override.get("ignore_missing_imports")
    }
    seen: set[str] = set()
    ahead = [f"headgate.{name.replace('/', '.')}" for name in compiled_modules()]
    foreign: dict[str, str] = {}
    while ahead:
        name = ahead.pop()
        if name in seen:
            continue
        seen.add(name)
        for module in imports(name):
            if module.partition(".")[0] == "headgate":
                ahead.append(module)
            else:
                foreign[module.partition(".")[0]] = name
    installed = packages_distributions()
    optional = {
        f"{module}, imported by {name}"
        for module, name in foreign.items()
        if module not in sys.stdlib_module_names | untyped | {"compression"}  # of Python 3.14
        and distributions.isdisjoint(map(plain_name, installed.get(module, ())))
    }
    assert len(foreign) > 10
    assert optional == set()


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
