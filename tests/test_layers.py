"""Imports point down only, and tests lie where one looks for them.

A room is a package of `headgate` or a module beside them. Rooms that are not in the table stand
above all of it: they may import what they like, but no room of the table may import them.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from support.root import ROOT

GATEWAY, SPARK = ROOT / "gateway" / "headgate", ROOT / "spark" / "headgate_spark"
CLIENT = ROOT / "clients" / "python" / "src" / "headgate_client"
EXAMPLES = ROOT / "examples"
TESTS = ROOT / "tests"
# Kinds of tests. A folder of any of them is named as a package of headgate or as one of these.
KINDS = ("unit", "app", "browser", "contract", "integration", "chaos", "spark")
OTHER_SUBJECTS = {
    "attacks",
    "audit",
    "clients",
    "cluster",
    "deploy",
    "docs",
    "examples",
    "loadtest",
    "mirror",
    "upgrades",
}

# What the files of a room may import of headgate: whole rooms, or single modules.
ALLOWED = {
    "native": {"native"},
    "model": {"model", "native"},
    "formats": {"formats", "model", "native"},
    "errors_in_words": set(),
    "config": {"redis.servers", "config", "model", "errors_in_words"},
    "metrics": {"__version__", "config", "model", "metrics", "native"},
    "charts": {"charts"},
    "offload": {"backends.system", "formats", "model", "offload"},
    "backends": {"backends", "model"},
    "kafka": {
        "backends.base",
        "backends.owned",
        "config.backend_settings",
        "model",
        "errors_in_words",
        "kafka",
        "metrics.library_lines",
        "metrics.meter",  # a class, not an interface: rooms of the hot path count with it directly
        "native",
    },
    "blobs": {"backends.system", "blobs", "config", "errors_in_words", "kafka", "model"},
    "audits": {
        "audits",
        "backends",
        "config",
        "errors_in_words",
        "kafka",
        "metrics.meter",
        "model",
    },
    "suppression": {
        "suppression",
        "model",
        "backends.base",
        "redis",
        "metrics.health",
        "metrics.meter",
    },
    "idempotency": {"idempotency", "metrics.meter", "model", "native.chosen", "redis"},
    "redis": {"redis", "backends.owned", "errors_in_words", "model", "native"},
    "consumer": {
        "errors_in_words",
        "oversize.chunks",
        "consumer",
        "model",
        "backends",
        "kafka",
        "redis.pauses",
    },
    "coalescer": {
        "audits.facts",
        "coalescer",
        "consumer",
        "model",
        "backends",
        "kafka",
        "offload",
        "ingest.admission",
        "ingest.gate",
        "metrics.meter",
        "tracing.spans",
    },
    "monitor": {
        "redis.pauses",
        "kafka",
        "backends",
        "model",
        "errors_in_words",
        "metrics",
        "monitor",
    },
    "ingest": {
        "formats",
        "ingest",
        "audits.facts",
        "model",
        "backends.base",
        "config.settings",
        "offload",
        "metrics.health",
        "metrics.meter",
        "tracing.spans",
        "native.chosen",
    },
    "oversize": {"formats", "oversize", "model", "offload", "backends.base", "ingest"},
    "spool": {
        "spool",
        "ingest.complete",
        "kafka.topics",
        "model",
        "backends.base",
        "backends.owned",
        "backends.system",
        "metrics.health",
        "metrics.meter",
        "tracing.spans",
    },
    "http": {
        "formats",
        "__version__",
        "audits.results",
        "blobs.blobs",
        "coalescer.bursts",
        "http",
        "model",
        "config",
        "errors_in_words",
        "idempotency",
        "native.chosen",
        "metrics",
        "ingest",
        "kafka.topics",
        "offload",
        "replays.registry",
        "replays.segments",
        "tracing.spans",
    },
    "admin": {
        "redis.pauses",
        "ingest.admission",
        "admin",
        "audits.results",
        "charts",
        "check.rules",  # the type of its findings
        "replays.offsets",  # and the types of services
        "replays.second_tier",
        "replays.service",
        "config",
        "model",
        "http",
        "metrics",
        "replays.registry",
    },
    "tracing": {"__version__", "errors_in_words", "tracing", "model"},
    "top": {"commands.terminal", "model", "top"},
    "replays": {
        "kafka",
        "replays",
        "backends",
        "config",
        "errors_in_words",
        "model",
        "metrics.fleet",
        "native.plain_answers",
    },
    "check": {
        "check",
        "kafka",
        "audits.facts",
        "backends",
        "config",
        "model",
        "errors_in_words",
        "redis.sentinel",
    },
    "devstack": {"devstack", "config", "consumer", "model", "errors_in_words", "kafka"},
}
# What the Spark jobs may.
SPARK_ALLOWED = {
    "__version__", "audits.facts", "audits.results", "charts", "commands.command_line",
    "commands.completion", "commands.output", "commands.terminal", "devstack.java",
    "errors_in_words", "kafka.access", "kafka.aiokafka_internals",
    "kafka.groups", "kafka.wire",
    "model", "replays.offset_map", "replays.packed", "replays.plan", "replays.registry",
    "replays.segments", "replays.spec",
}  # fmt: skip
# Where a foreign package may be imported; any other room of the table knows nothing of it.
FOREIGN = {
    "audits": {"aiokafka", "orjson"},
    "blobs": {"fsspec", "botocore"},
    "consumer": {"aiokafka", "fsspec", "prometheus_client", "redis", "sqlalchemy"},
    "formats": {"msgspec"},
    "model": {"jsonschema_rs", "msgspec", "orjson"},
    "kafka": {"aiokafka", "backports", "compression"},
    "idempotency": {"msgspec"},
    "native": {"aiokafka"},
    "coalescer": {"aiokafka"},
    "oversize": {"orjson"},
    "redis": {"redis"},
    "replays": {"aiokafka"},
    "check": {"aiokafka", "redis"},
    "admin": {"aiohttp", "jinja2", "markupsafe", "orjson", "yarl"},
    "http": {"aiohttp", "backports", "compression", "joserfc", "orjson"},
    "metrics": {"msgspec", "orjson", "prometheus_client"},
    "monitor": {"aiohttp"},
    "spool": {"msgspec"},
    "top": {"msgspec"},
    "tracing": {"aiohttp", "orjson"},
    "devstack": {"aiohttp", "aiokafka"},
}
# Modules without I/O that may read and write JSON or MessagePack.
CODECS = {
    "audits.facts",
    "formats.cloudevents",
    "formats.confluent",
    "formats.envelope",
    "formats.json_text",
    "idempotency.rules",
    "model.content",
    "model.reply",
    "model.schema",
    "oversize.chunks",
    "spool.database",
}
# What Spark executors import: nothing of ours, but for what is chosen between C and its twin.
TWINS = {"native.chosen.murmur2", "native.chosen.is_too_deep"}
ALONE = {"model.keys", "model.record", "replays.packed"}
# Modules of other rooms that are as pure as `model` and `formats`. A lower room may import them.
PURE = {
    "audits.facts", "audits.results", "coalescer.windows",
    "commands.side_by_side", "commands.terminal", "consumer.ownership", "ingest.admission",
    "kafka.groups", "oversize.chunks", "redis.servers", "replays.offset_map",
    "replays.packed", "replays.plan", "replays.registry", "replays.segments", "replays.spec",
}  # fmt: skip
# Time, randomness, the environment and the world are arguments of pure modules.
WORLDLY = {"asyncio", "os", "pathlib", "random", "secrets", "socket", "subprocess", "threading",
           "time", "uuid", "logging", "urllib.request", "http", "multiprocessing"}  # fmt: skip
# The only file that knows the inside of aiokafka; the modules of aiokafka that others may import,
# and the usual names of its objects.
AIOKAFKA_INTERNALS = GATEWAY / "kafka" / "aiokafka_internals.py"
AIOKAFKA_DOCUMENTED = {
    "aiokafka", "aiokafka.abc", "aiokafka.admin", "aiokafka.admin.config_resource",
    "aiokafka.codec", "aiokafka.coordinator.assignors.roundrobin", "aiokafka.errors",
    "aiokafka.structs",
}  # fmt: skip
# The parent imports the twin of the encoder, and must not import aiokafka for it.
AIOKAFKA_ALLOWED = {
    GATEWAY / "native" / "plain.py": {
        "aiokafka.record.default_records", "aiokafka.record.util",
    },
}  # fmt: skip
AIOKAFKA_NAMES = {
    "admin", "client", "consumer", "producer", "self._admin", "self._client", "self._consumer",
    "self._inner", "self._producer", "self.consumer",
}  # fmt: skip


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, as far as the text says."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def modules(root: Path) -> list[tuple[str, set[str]]]:
    """(name below the package, what it imports) of every file."""
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__") or "__init__"
        found.append((name, set(imported(path))))
    return found


def is_foreign(name: str) -> bool:
    return name.partition(".")[0] not in {*sys.stdlib_module_names, "headgate", "headgate_spark"}


def ours(names: set[str]) -> set[str]:
    return {name.removeprefix("headgate.") for name in names if name.startswith("headgate.")}


def within(name: str, allowed: set[str]) -> bool:
    return any(name == one or name.startswith(one + ".") for one in allowed)


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_what_lies_below_it(room: str) -> None:
    for name, names in modules(GATEWAY):
        if name.partition(".")[0] == room:
            assert {one for one in ours(names) if not within(one, ALLOWED[room])} == set(), name
            foreign = {one.partition(".")[0] for one in names if is_foreign(one)}
            assert foreign <= FOREIGN.get(room, set()), name


def test_the_model_the_formats_and_pure_modules_are_pure() -> None:
    assert {name for name, _ in modules(GATEWAY)} >= PURE
    for name, names in modules(GATEWAY):
        if name.startswith(("model.", "formats.")) or name in PURE:
            assert not {one for one in names if within(one, WORLDLY)}, name
            assert name in CODECS or not any(map(is_foreign, names)), name
            assert name not in ALONE or ours(names) <= TWINS, name


def test_what_is_said_of_what_is_too_large_is_in_one_file() -> None:
    saying = {
        str(path.relative_to(GATEWAY))
        for path in GATEWAY.rglob("*.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and any(ast.unparse(one) == "Reason.TOO_LARGE" for one in node.args)
    }
    assert saying == {"model/route.py"}


def python_files() -> Iterator[Path]:
    for folder in (GATEWAY, SPARK):
        yield from sorted(folder.rglob("*.py"))


def test_clients_of_kafka_are_made_in_one_place() -> None:
    """There they do not create topics, and read header names that are not UTF-8."""
    classes = {"AIOKafkaClient", "AIOKafkaConsumer", "AIOKafkaProducer", "AIOKafkaAdminClient"}
    makers = {
        path
        for path in python_files()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in classes
    }
    assert makers == {AIOKAFKA_INTERNALS}


def test_the_inside_of_aiokafka_is_used_in_one_file() -> None:
    """Other files use its documented modules, and no private attribute of its objects."""
    offending = []
    for path in python_files():
        tree = parsed(path)
        names = set(imported(path))
        modules = {
            node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and is_of_aiokafka(node.module or "")
        }
        if path != AIOKAFKA_INTERNALS:
            documented = AIOKAFKA_DOCUMENTED | AIOKAFKA_ALLOWED.get(path, set())
            offending += [(path, module) for module in modules - documented]
            if modules or any("aiokafka_internals" in name for name in names):
                offending += [(path, f"line {line}") for line in foreign_private_lines(tree)]
    assert offending == []


def is_of_aiokafka(module: str) -> bool:
    return module.partition(".")[0] == "aiokafka"


def foreign_private_lines(tree: ast.AST) -> list[int]:
    """Lines with a private attribute that no class of the file defines."""
    nodes = list(ast.walk(tree))
    own = {
        node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    } | {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    }
    return [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and node.attr not in {"_replace", "_asdict"}
        and ast.unparse(node.value) not in {"self", "cls"}
        and not node.attr.startswith("__")
        and (node.attr not in own or ast.unparse(node.value) in AIOKAFKA_NAMES)
    ]


def test_no_two_rooms_import_each_other() -> None:
    def node_of(name: str) -> str:
        """Return the room, or the pure module, which may lie in a higher room."""
        return next((one for one in PURE if within(name, {one})), name.partition(".")[0])

    graph: dict[str, set[str]] = {}
    for name, names in modules(GATEWAY):
        node = node_of(name)
        graph.setdefault(node, set()).update({node_of(one) for one in ours(names)} - {node})
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_spark_jobs_import_the_model_kafka_and_what_installs_jars() -> None:
    for name, names in modules(SPARK):
        assert all(within(one, SPARK_ALLOWED) for one in ours(names)), name


def test_no_two_packages_of_the_spark_jobs_import_each_other() -> None:
    folders = {
        "headgate_spark" + ".".join(("", *path.parent.relative_to(SPARK).parts))
        for path in SPARK.rglob("__init__.py")
    }

    def folder_of(name: str) -> str:
        while name not in folders:
            name = name.rpartition(".")[0]
        return name

    graph: dict[str, set[str]] = {}
    for module, names in modules(SPARK):
        mine = folder_of(f"headgate_spark.{module}")
        theirs = {folder_of(one) for one in names if one.startswith("headgate_spark.")}
        graph.setdefault(mine, set()).update(theirs - {mine})
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_client_needs_httpx_alone_and_its_core_not_even_that() -> None:
    for name, names in modules(CLIENT):
        foreign = {one.partition(".")[0] for one in names if is_foreign(one)}
        may = {"headgate_client", "backports", "compression"}
        assert foreign <= (may if within(name, {"core"}) else may | {"httpx"}), name
        if within(name, {"core"}):
            # a new id has the time and random bytes unless they are given
            assert name == "core.ids" or not {one for one in names if within(one, WORLDLY)}, name
            above = {one for one in names if one.startswith("headgate_client.")}
            below = {"core", "errors", "events", "outcomes", "settings"}
            assert all(within(one.removeprefix("headgate_client."), below) for one in above), name


def test_what_examples_show_is_the_library_alone() -> None:
    """Only what starts the stack on this machine knows how that is done."""
    for name, names in modules(EXAMPLES):
        is_starter = name.rpartition(".")[2] in ("__main__", "postgres")
        allowed = {"backends.system", "consumer", "devstack"} if is_starter else {"consumer"}
        assert {one for one in ours(names) if not within(one, allowed)} == set(), name


def test_the_table_is_about_rooms_that_exist() -> None:
    rooms = {name.partition(".")[0] for name, _ in modules(GATEWAY)}
    assert rooms >= set(ALLOWED)
    assert set(ALLOWED) >= set(FOREIGN)


def files_in(folder: Path) -> list[Path]:
    return [one for one in folder.iterdir() if one.is_file()]


def test_what_helps_tests_is_in_support() -> None:
    programs = [one.name for one in files_in(TESTS) if one.suffix == ".py"]
    assert {
        one for one in programs if one != "conftest.py" and not one.startswith("test_")
    } == set()


def test_a_test_is_found_by_the_name_of_the_package_that_it_is_of() -> None:
    packages = {str(path.parent.relative_to(GATEWAY)) for path in GATEWAY.glob("*/**/__init__.py")}
    folders = {TESTS / kind / one for kind in KINDS for one in packages | OTHER_SUBJECTS}
    tests = [path for kind in KINDS for path in (TESTS / kind).rglob("test_*.py")]
    assert [str(path.relative_to(ROOT)) for path in tests if path.parent not in folders] == []


def test_what_an_event_passes_is_typed() -> None:
    """`Any` switches the type checker off for whatever it touches."""
    found = [
        path.relative_to(GATEWAY).as_posix()
        for room in ("model", "formats", "ingest")
        for path in (GATEWAY / room).rglob("*.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Name) and node.id == "Any"
    ]
    assert found == []
