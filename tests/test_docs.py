"""What the documents say exists: links, commands, options, metrics, names, files, reasons."""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import subprocess
import tokenize
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from generate import generated
from headgate import cli
from headgate.config.settings import NAMED, SECTIONS
from headgate.metrics import catalogue as metrics
from headgate.model.policy import options_of
from headgate.model.publish import NEXT
from support.known_metrics import JOB_LABELS, records
from support.pages import anchors
from support.plain_english import RULES, baseline, converted, counted, findings, rules
from support.root import ROOT

PACKAGE = ROOT / "gateway" / "headgate"
CLIENTS = ROOT / "clients"
EXAMPLES = ROOT / "examples"
README = ROOT / "README.md"
PUBLISHED = (README, *sorted(CLIENTS.glob("*/README.md")))
OURS = (README, *sorted((ROOT / "docs").rglob("*.md")))
CODE = {".py", ".pyi", ".c", ".h", ".lua", ".toml", ".yml"}
PLACES = ("docs/", "deploy/", "loadtest/", "tests/", "gateway/", "spark/", "clients/")
LATER = "Not in this build"  # the README's section of what may be named though it is not there

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
_COMMAND = re.compile(r"(?:bin/|^|[`\s])headgate ([a-z]+)((?:[^\n`#]|\\\n)*)", re.MULTILINE)
_OPTION = re.compile(r"`(?:\[?)([a-z]+)\.(?!py`)([a-z]\w*(?:\.\w+)*)\]?`")
_NAME = re.compile(r"`([a-z]+(?:_[a-z0-9]+)+)`")
_METRIC = re.compile(r"(?:\b\w+:)?\bheadgate_[a-z_]+[a-z](?::\w+)?")
_EXPOSED = re.compile(r"_(bucket|sum|count)$")


def tracked() -> list[Path]:
    """Every file that a clone has."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def text_of(document: Path) -> str:
    return document.read_text()


def without_later(text: str) -> str:
    """The text without the README's section about what is not there yet."""
    return re.sub(rf"^## {LATER}\n.*?(?=^## )", "", text, flags=re.MULTILINE | re.DOTALL)


def markdown() -> list[Path]:
    return sorted({*OURS, *(path for path in tracked() if path.suffix == ".md")})


def test_links_lead_somewhere() -> None:
    broken = []
    for document in markdown():
        for link in _LINK.findall(_CODE.sub("", text_of(document))):
            if urlsplit(link).scheme:
                continue
            name, _, anchor = link.partition("#")
            target = (document.parent / name) if name else document
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{document}: {link}")
    assert broken == []


@cache
def help_of(*arguments: str) -> str:
    """What `headgate ... --help` prints."""
    printed = io.StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit):
        cli.main([*arguments, "--help"])
    return printed.getvalue()


def test_commands_and_their_options_exist() -> None:
    shown = help_of()
    named = [
        (document, *found)
        for document in OURS
        for code in _CODE.findall(text_of(document))
        for found in _COMMAND.findall(code)
    ]
    for page, command, rest in named:
        assert command in cli.COMMANDS, (page, command)
        flags = set(re.findall(r"--[a-z][a-z-]*", rest))
        assert not flags or flags <= set(re.findall(r"--[a-z-]+", help_of(command))), (page, rest)
        # `worker` is started by `serve`, never by people
        is_shown = re.search(rf"^ +{command}\b", shown, re.MULTILINE)
        assert command == "worker" or is_shown, (page, command)


def test_the_documents_name_every_command() -> None:
    named = {found[0] for page in OURS for found in _COMMAND.findall(text_of(page))}
    assert named >= set(cli.COMMANDS) - {"worker"}


def repository() -> str:
    """The address that pyproject.toml names; `make urls` writes it wherever it is named."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["urls"]["Repository"])


def test_the_readme_is_short() -> None:
    assert len(text_of(README).splitlines()) <= 150


@pytest.mark.parametrize("document", PUBLISHED, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_pages_on_package_indexes_are_whole_and_alive(document: Path) -> None:
    """PyPI and npm show these pages: a relative link is dead there."""
    text = _CODE.sub("", text_of(document))
    links = [*_LINK.findall(text), *re.findall(r"""(?:src|srcset|href)="([^"]+)""", text)]
    assert [link for link in links if not link.startswith("https://")] == []
    inside = re.compile(rf"{re.escape(repository())}/(?:blob|raw)/main/([^#]+)#?(.*)")
    ours = [match.groups() for match in map(inside.fullmatch, links) if match]
    assert ours
    assert [
        f"{name}#{anchor}"
        for name, anchor in ours
        if not (ROOT / name).is_file() or (anchor and anchor not in anchors(ROOT / name))
    ] == []


def test_the_example_of_the_readme_is_the_one_that_is_run() -> None:
    run = text_of(ROOT / "docs" / "quickstart.md")
    shown = re.findall(r"^```(?:sh|http)\n.*?^```$", text_of(README), re.MULTILINE | re.DOTALL)
    assert [block for block in shown if block in run] == shown != []


def sections() -> dict[str, set[str]]:
    """The options of each section."""
    return {name: set(options_of(kind)) for name, kind in {**SECTIONS, **NAMED}.items()}


def test_options_exist() -> None:
    known = sections()
    for document in OURS:
        for section, name in _OPTION.findall(without_later(text_of(document))):
            if section in known:
                option = name.rpartition(".")[2]
                assert option in known[section], f"{document}: {section}.{name}"


def test_metrics_exist() -> None:
    # and what is no metric of the gateway: the consumer's, its table, packages
    others = {"headgate_consumer", "headgate_positions", "headgate_spark", "headgate_spark_job"}
    others |= {"headgate_client"}
    known = {*metrics.METRICS, *JOB_LABELS, *(name for name, _ in records()), *others}
    for document in OURS:
        named = {_EXPOSED.sub("", name) for name in _METRIC.findall(text_of(document))}
        assert named <= known, document


# Names of other Kafka clients, on the page for their users.
OTHER_CLIENTS = {
    "add_callback", "add_errback", "auto_commit_interval_ms", "batch_size", "begin_transaction",
    "buffer_memory",
    "delivery_timeout_ms", "isolation_level", "key_serializer", "max_batch_size",
    "max_block_ms", "max_in_flight_requests_per_connection", "max_poll_interval_ms",
    "max_poll_records", "max_request_size", "on_assign", "on_delivery", "on_revoke",
    "retry_backoff_ms", "transactional_id", "value_deserializer",
}  # fmt: skip


def test_names_in_code_style_occur_in_the_code() -> None:
    words = set(JOB_LABELS) | OTHER_CLIENTS
    code = (ROOT / "spark", CLIENTS, EXAMPLES)
    for path in (*PACKAGE.rglob("*"), *(path for root in code for path in root.rglob("*.py"))):
        if path.suffix in {".c", ".py", ".lua", ".toml"}:
            words.update(re.findall(r"\w+", path.read_text()))
    for path in (ROOT / "tests").rglob("test_*.py"):
        words.update(re.findall(r"def (test_\w+)", path.read_text()))
    for document in OURS:
        named = set(_NAME.findall(without_later(text_of(document)))) - words
        # CloudEvents attributes, and the `_file` variant that every secret option has
        known = {
            name for name in named if name.startswith("ce_") or name.removesuffix("_file") in words
        }
        assert named == known, document


def test_what_is_generated_is_current() -> None:
    stale = [path for path, text in generated() if path.read_text() != text]
    assert stale == [], "make docs writes them"


def test_the_site_builds_and_fetches_nothing(tmp_path: Path) -> None:
    """Zensical is strict about links in pages; links and pictures of the result are read here."""
    python = ROOT / ".venv" / "docs" / "bin" / "python"
    if not python.exists():
        pytest.skip("needs Zensical: make docs installs it")
    command = [str(python), "docs/site.py", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    pages = {page: page.read_text() for page in (tmp_path / "site").rglob("*.html")}
    assert len(pages) > 100
    fetched = re.compile(
        r"""<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="(https?://[^"]+)"""
    )
    assert [found for text in pages.values() for found in fetched.findall(text)] == []
    assert [link for page, text in pages.items() for link in _dead_links(page, text)] == []
    # Zensical's own script asks GitHub for stars where it finds this component.
    assert not any('data-md-component="source"' in text for text in pages.values())


def _dead_links(page: Path, text: str) -> list[str]:
    """Return the relative links of a page of the site that lead to no file."""
    links = re.findall(r"""<(?:a|img|link|script)\b[^>]*?\s(?:href|src)="([^"#?]+)""", text)
    near = {link for link in links if not urlsplit(link).scheme and not link.startswith("/")}
    targets = {link: page.parent / link for link in near}
    return [
        f"{page}: {link}"
        for link, target in targets.items()
        if not (target / "index.html" if target.is_dir() else target).is_file()
    ]


def test_every_page_is_in_the_navigation() -> None:
    """Zensical builds pages that the navigation leaves out."""
    docs = ROOT / "docs"
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r"[\w./-]+\.md", nav)
    assert sorted(named) == sorted(str(page.relative_to(docs)) for page in docs.rglob("*.md"))


def test_pages_are_in_plain_english() -> None:
    """The baseline allows findings in pages that are not converted yet."""
    allowed = baseline()
    more = {
        page: f"{count} findings, {allowed.get(page, 0)} allowed"
        for page, count in counted().items()
        if count > allowed.get(page, 0)
    }
    assert more == {}, "PYTHONPATH=tests .venv/bin/python -m support.plain_english PAGE shows them"


def test_the_baseline_names_pages_that_exist() -> None:
    assert [page for page in baseline() if not (ROOT / page).is_file()] == []


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        ("Length", "one " * 41, "one " * 40),
        ("What", "It prints what it is.", "Do you know what it is?"),
        ("What", "Whatever is wrong is printed.", "It prints what to do and what happens."),
        ("Machines", "It waits for nobody.", "It waits for no client."),
        ("Machines", "For who prefers exceptions.", "Ask the person who installed it."),
        ("States", "Redis is away.", "Is Redis away?"),
        ("States", "When it was not yet back, it stopped.", "When it is back to normal, go on."),
        ("Inversion", "Where its topic suppresses, it waits.", "Where to go next, and why."),
        ("Inversion", "So does the worker.", "So the worker stops."),
        ("Calls", "The lane is told.", "The page tells you the offset."),
    ],
)
def test_the_rules_of_plain_english(rule: str, bad: str, good: str) -> None:
    assert [found.rule for found in findings(bad)] == [rule]
    assert findings(good) == []


def test_code_and_quoted_words_are_exempt_from_plain_english() -> None:
    exempt = '```\nwhat it is\n```\n\n`what it is`, "what it is", <!-- what\nit is -->'
    assert findings(exempt) == []
    table = "| head | head |\n|---|---|\n| a cell | nobody |\n\n- one\n- two; redis is away\n"
    assert [(found.line, found.rule) for found in findings(table)] == [
        (3, "Machines"),
        (6, "States"),
    ]


def test_every_rule_of_plain_english_is_read() -> None:
    assert {f"{rule.name}.yml" for rule in rules()} == {path.name for path in RULES.iterdir()}


def test_vale_finds_nothing_in_pages_that_are_converted() -> None:
    """Vale applies the same rules; it parses Markdown and splits sentences by itself."""
    vale = shutil.which("vale", path=f"{ROOT}/.venv/vale/bin{os.pathsep}{os.environ['PATH']}")
    if vale is None:
        pytest.skip("needs Vale: make docs-lint builds it (with Go)")
    pages = [str(page.relative_to(ROOT)) for page in converted()]
    ended = subprocess.run(
        [vale, "--output=line", *pages], cwd=ROOT, capture_output=True, check=False, text=True
    )
    assert (ended.stdout, ended.returncode) == ("", 0), ended.stderr


def sources() -> list[Path]:
    """Every module of the gateway, of the Spark jobs, of the client and of the examples."""
    roots = (PACKAGE, ROOT / "spark" / "headgate_spark", CLIENTS, EXAMPLES)
    return sorted(path for root in roots for path in root.rglob("*.py"))


def first_line_of(path: Path) -> str | None:
    """What a module says it is, if it says so in one line of its own."""
    said = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()
    if not said or said[1:2] not in ([], [""]) or not said[0].endswith((".", "?", ":")):
        return None
    return said[0]


def test_every_module_says_in_its_first_line_what_it_is() -> None:
    silent = [str(path.relative_to(ROOT)) for path in sources() if first_line_of(path) is None]
    assert silent == []


def test_sections_of_a_module_have_headings_of_one_form() -> None:
    # `# ---- the meter`: a comment alone between blank lines is a heading, and has this form;
    # so is the first line of a comment with an empty second line
    alone = re.compile(r"(?<=\n\n) *# (?!---- [^-\s]|fmt: |noqa).*(?=\n\n)|(?<=\n) *# -{2,3} .*")
    opening = re.compile(r"(?<=\n\n) *# (?!---- [^-\s]).*(?=\n *#\n)")
    ended = re.compile(r"(?<=\n\n) *# ---- .*\.(?=\n\n|\n *#\n)")
    found = [
        f"{path.relative_to(ROOT)}: {match.group().strip()}"
        for path in (*sources(), *sorted((ROOT / "loadtest").rglob("*.py")))
        for pattern in (alone, opening, ended)
        for match in pattern.finditer(path.read_text())
    ]
    assert found == []


def test_fields_are_documented_as_attributes() -> None:
    # Args are of functions and constructors; a NamedTuple or dataclass has Attributes
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in (*sources(), *sorted((ROOT / "loadtest").rglob("*.py")))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and not any(getattr(each, "name", "") == "__init__" for each in node.body)
        and re.search(r"^Args:$", ast.get_docstring(node) or "", re.MULTILINE)
    ]
    assert found == []


def test_names_of_questions_are_of_functions_that_answer() -> None:
    question = re.compile(r"_*(?:is|has|may|can|needs)_")
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and question.match(node.name)
        and node.returns is not None
        and ast.unparse(node.returns) == "None"
    ]
    assert found == []


Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def documented() -> Iterator[tuple[str, Documented]]:
    """(where, definition) of every class and function that documents its arguments."""
    for root in (PACKAGE, ROOT / "spark", CLIENTS, EXAMPLES, ROOT / "loadtest", ROOT / "tests"):
        for path in sorted(root.rglob("*.py")):
            text = path.read_text()
            for node in ast.walk(ast.parse(text)) if "    Args:\n" in text else ():
                if isinstance(node, Documented) and ast.get_docstring(node):
                    yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def parameters_of(node: Documented) -> set[str]:
    """The parameters of a function, or those of a class's constructor."""
    if isinstance(node, ast.ClassDef):
        made = [each for each in node.body if getattr(each, "name", "") in ("__init__", "__new__")]
        return set().union(*(parameters_of(each) for each in made if isinstance(each, Documented)))
    given = node.args
    several = [each for each in (given.vararg, given.kwarg) if each is not None]
    return {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, *several)}


def documented_args(docstring: str) -> set[str]:
    """The names below `Args:`."""
    below = re.search(r"^Args:\n((?: {4}.*\n?|\n)+)", docstring, re.MULTILINE)
    heads = re.findall(r"^ {4}(\S[^:]*):", below.group(1), re.MULTILINE) if below else []
    return {name for head in heads for name in re.findall(r"\w+", head)}


def test_documented_args_are_parameters() -> None:
    found = [
        (where, sorted(extra))
        for where, node in documented()
        if (extra := documented_args(ast.get_docstring(node) or "") - parameters_of(node))
    ]
    assert found == []


def test_arguments_of_a_constructor_stand_in_the_docstring_of_its_class() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if getattr(node, "name", "") == "__init__"
        and isinstance(node, Documented)
        and ast.get_docstring(node)
    ]
    assert found == []


def test_every_stage_is_in_the_life_of_an_event() -> None:
    stage = re.compile(r"^    (\w+) {2,}\S", re.MULTILINE)
    head, *stages = stage.findall((PACKAGE / "ingest" / "path.py").read_text().split('"""')[1])
    assert head == "stage"
    told = re.findall(r"\*\*(\w+)\*\* \(", text_of(ROOT / "docs/design/life-of-an-event.md"))
    shown = re.findall(r">(\w+)</text>", (ROOT / "docs/design/life-of-an-event.svg").read_text())
    assert stages
    assert set(stages) <= {one.lower() for one in told} & set(shown)


def test_the_table_of_stages_is_that_of_the_code() -> None:
    """The page has a row for each stage of an event, with the stages that may follow it."""
    page = text_of(ROOT / "docs/design/life-of-an-event.md").split("## Where an event is")[1]
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE)
    allowed = {name: set(re.findall(r"\w+", after)) for name, after in rows}
    assert allowed == {
        stage.name: {after.name for after in following} for stage, following in NEXT.items()
    }


def decisions() -> Iterator[tuple[str, str]]:
    """(where, text) of each record."""
    for page in sorted((ROOT / "docs" / "design" / "decisions").glob("*.md")):
        for text in text_of(page).split("\n## ")[1:]:
            yield f"{page.stem}: {text.splitlines()[0]}", text


def test_a_decision_has_context_decision_and_consequences() -> None:
    found = re.compile(r"^\*\*(\w+)\.\*\* \S", re.MULTILINE)
    wanted = ["Context", "Decision", "Consequences"]
    assert [where for where, text in decisions() if found.findall(text) != wanted] == []


def test_tests_that_are_named_exist() -> None:
    named = re.compile(r"(?<![\w/.])tests/[a-z][\w/]*(?:\.(?:py|toml|md))?")
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in tracked()
        for name in named.findall(path.read_text(errors="replace"))
        if not (ROOT / name).exists()
    }
    assert found == set()


def cited() -> Iterator[tuple[str, str, str]]:
    """(where, page, anchor) of every page that code names, by its path from the root."""
    page = re.compile(r"(?<![\w/.-])((?:[a-z]\w*/)+[\w-]+\.md)(?:#([\w-]+))?")
    for path in tracked():
        if path.suffix in CODE or path.name == "Makefile":
            site = "docs/" if path.name == "mkdocs.yml" else ""  # whose pages are named from there
            for name, anchor in page.findall(path.read_text()):
                yield str(path.relative_to(ROOT)), site + name, anchor


def test_pages_that_code_names_exist() -> None:
    found = [
        f"{where}: {name}#{anchor}"
        for where, name, anchor in cited()
        if name.startswith(PLACES)
        and (not (ROOT / name).exists() or (anchor and anchor not in anchors(ROOT / name)))
    ]
    assert found == []


def test_files_that_the_pages_for_developers_name_exist() -> None:
    named = re.compile(r"`((?:[a-z]\w*/)+(?:[\w-]+\.[a-z]+)?)`")
    missing = {
        f"{page.name}: {name}"
        for page in (*(ROOT / "docs" / "design").rglob("*.md"), ROOT / "docs" / "contributing.md")
        for name in named.findall(text_of(page))
        if not any((root / name).exists() for root in (ROOT, PACKAGE))
    }
    assert missing == set()


def importers_of(name: str) -> set[str]:
    """The gateway's files that import a function of the model, by their paths in the package."""
    return {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if name in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headgate.model")
        if name in {alias.name for alias in node.names}
    }


@pytest.mark.parametrize(("row", "names"), [
    ("partition of a key", ("partition_for",)),
    ("partition of an event, with or without a key", ("choose_partition", "place_again")),
])  # fmt: skip
def test_the_page_for_developers_names_the_callers_of_the_partition_rule(
    row: str, names: tuple[str, ...]
) -> None:
    page = text_of(ROOT / "docs" / "contributing.md")
    (text,) = re.findall(rf"^\| {row} \| (.*) \|$", page, re.MULTILINE)
    named = set(re.findall(r"`((?:[a-z]\w*/)+\w+\.py)`", text))
    for name in names:
        assert f"`{name}`" in text
        assert importers_of(name)
        assert importers_of(name) <= named


def test_code_cites_pages_by_their_paths_alone() -> None:
    # "suppression-protocol, rule 3", "6-measured-facts", "the contract": nobody can open those
    elsewhere = re.compile(
        r"\((?:\d+-[a-z-]+|[a-z]+-measured)[,)]"
        r"|(?<![\w/])[a-z]+(?:-[a-z]+)+, (?:rule|section|counterexample) \d"
        r"|\bhouse (?:style|plan)\b|\b(?:of|by|than|and|as|speaks) the (?:contract|mission)\b"
    )
    here = Path(__file__)
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in tracked()
        if (path.suffix in CODE or path.name == "Makefile") and path != here
        for match in elsewhere.finditer(path.read_text())
    ]
    assert found == []


def dotted() -> Iterator[tuple[str, str]]:
    """(where, name) of each thing that code names by its package, such as `model.keys.KeyRule`."""
    packages = "|".join(one.parent.name for one in PACKAGE.glob("*/__init__.py"))
    named = re.compile(rf"`(?:headgate\.)?((?:{packages})(?:\.\w+)+)(?:\(\))?`")
    for path in tracked():
        if path.suffix == ".py":
            for name in named.findall(path.read_text()):
                yield str(path.relative_to(ROOT)), name


def is_there(name: str) -> bool:
    """Whether a dotted name is a package, a module, or something that one has."""
    place, parts = PACKAGE, name.split(".")
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    module = place / "__init__.py"
    if parts and (place / f"{parts[0]}.py").is_file():
        module = place / f"{parts.pop(0)}.py"
    return not parts or re.search(rf"\b{parts[0]}\b", module.read_text()) is not None


def test_what_code_names_by_its_package_is_there() -> None:
    options = {f"{section}.{name}" for section, names in sections().items() for name in names}
    files = (".lua", ".toml")
    missing = [
        f"{where}: {name}"
        for where, name in dotted()
        if name not in options and not name.endswith(files) and not is_there(name)
    ]
    assert missing == []


def explanations(path: Path) -> Iterator[str]:
    """The docstrings and comments of a Python file."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@cache
def names_in(path: Path) -> frozenset[str]:
    """The names that a Python file binds, reads or imports."""
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.Name():
                names.add(node.id)
            case ast.Attribute():
                names.add(node.attr)
            case ast.arg():
                names.add(node.arg)
            case ast.alias():
                names |= {*node.name.split("."), node.asname or ""}
            case ast.ImportFrom():
                names |= {*(node.module or "").split(".")}
    return frozenset(names)


def _has_module(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() or (folder / f"{name}.py").is_file()


def test_references_begin_with_a_module_or_name_that_exists() -> None:
    """A reference such as `framing.Pacing` leads nowhere if there is no `framing`."""
    of_others = {"controller.quorum.voters"}  # an option of Kafka
    suffix = re.compile(r"\.(?:c|h|java|js|json|lua|md|mjs|py|toml|ya?ml)$")
    reference = re.compile(r"`([A-Za-z_]\w*)\.(\w+)((?:\.\w+)*)(?:\([^`]*\))?`")
    folders = tuple(ROOT / name for name in ("gateway", "spark", "clients"))
    ours = [path for path in tracked() if any(path.is_relative_to(each) for each in folders)]
    modules = dict[str, list[Path]]()
    for path in ours:
        if path.suffix in {".py", ".c"}:
            name = path.parent.name if path.stem == "__init__" else path.stem
            modules.setdefault(name, []).append(path)
    files = [path for path in ours if path.suffix == ".py"]
    options = {f"{section}.{name}" for section, names in sections().items() for name in names}
    everything = frozenset[str]().union(*map(names_in, files))

    def leads_somewhere(path: Path, head: str, attribute: str) -> bool:
        if head in names_in(path):
            return True
        homes = modules.get(head)
        if homes is None:
            return head in everything
        return any(
            re.search(rf"\b{attribute}\b", home.read_text())
            or (home.stem == "__init__" and _has_module(home.parent, attribute))
            for home in homes
        )

    missing = [
        f"{path.relative_to(ROOT)}: {head}.{attribute}{rest}"
        for path in files
        for text in explanations(path)
        for head, attribute, rest in reference.findall(text)
        if (name := f"{head}.{attribute}{rest}") not in options | of_others
        and not suffix.search(name)
        and not leads_somewhere(path, head, attribute)
    ]
    assert missing == []


def comments(path: Path) -> Iterator[str]:
    """The docstrings and comments of a file of code."""
    if path.suffix in {".py", ".pyi"}:
        yield from explanations(path)
    elif path.suffix == ".lua":
        yield from re.findall(r"--.*", path.read_text())
    elif path.suffix in {".c", ".h"}:
        yield from re.findall(r"/\*.*?\*/|//[^\n]*", path.read_text(), re.DOTALL)


def test_files_that_comments_of_the_code_name_exist() -> None:
    of_others = {"linux/prctl.h", "linux/filter.h", "asm-generic/socket.h", "rdkafka_msg.c"}
    released = "suppression_before.lua"  # a script of an earlier version, with its paths
    named = re.compile(r"(?<![\w/.*<>{}$-])((?:[\w.-]+/)*[a-z_]\w*\.(?:py|lua|c|h))(?![\w(])")
    ends = {"/".join(path.parts[start:]) for path in tracked() for start in range(len(path.parts))}
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in tracked()
        if path.name != released
        for text in comments(path)
        for name in named.findall(text)
        if name not in ends | of_others
    ]
    assert missing == []


def test_nothing_names_a_machine_or_a_registry() -> None:
    folders = {str(path) for path in (ROOT, Path.home()) if len(path.parts) > 2}
    places = {*folders, *_index_hosts()}
    home = re.compile(r"(?<![\w.$}~])/(?:root|home/\w+|Users/\w+|work)/\w")
    found = []
    for path in tracked():
        text = path.read_text(errors="replace")
        found += [
            f"{path}: {place}" for place in places if re.search(rf"{re.escape(place)}\b", text)
        ]
        found += [f"{path}: {match}" for match in home.findall(text)]
    assert found == []


def _index_hosts() -> set[str]:
    """The hosts of the package indexes that this machine uses, if it says so."""
    texts = [value for name, value in os.environ.items() if name.endswith(("INDEX_URL", "_PROXY"))]
    for file in (Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf"):
        if file.is_file():
            parser = ConfigParser(interpolation=None)
            parser.read(file)
            texts += [value for section in parser.values() for value in section.values()]
    hosts = {urlsplit(word).hostname for text in texts for word in text.split()}
    return {host for host in hosts if host and "." in host and not host[0].isdigit()}


@pytest.mark.parametrize("lock", sorted(ROOT.glob("*.lock")), ids=lambda lock: lock.name)
def test_locked_packages_name_no_index(lock: Path) -> None:
    lines = text_of(lock).splitlines()
    assert [line for line in lines if "://" in line or "--index" in line or "--find" in line] == []
