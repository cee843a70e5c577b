"""What the documents say exists: links, commands, options, metrics, names, files, reasons."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import redirect_stdout
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from generate import generated
from headgate import cli
from headgate.config.names import NAMED, SECTIONS
from headgate.core.option import options_of
from headgate.telemetry import catalogue as metrics

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "gateway" / "headgate"
README, DESIGN, DEPLOY = ROOT / "README.md", PACKAGE / "DESIGN.md", ROOT / "deploy" / "README.md"
OURS = (README, DESIGN, DEPLOY, *sorted((ROOT / "docs").rglob("*.md")))
LATER = "Not in this build"  # the README's section of what may be named though it is not there

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
_COMMAND = re.compile(r"(?:bin/|^|[`\s])headgate ([a-z]+)((?:[^\n`#]|\\\n)*)", re.MULTILINE)
_OPTION = re.compile(r"`(?:\[?)([a-z]+)\.(?!py`)([a-z]\w*(?:\.\w+)*)\]?`")
_NAME = re.compile(r"`([a-z]+(?:_[a-z0-9]+)+)`")
_METRIC = re.compile(r"\bheadgate_[a-z_]+[a-z]")
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


def anchors(document: Path) -> set[str]:
    """The anchors that a Markdown viewer gives to headings."""
    prose = re.sub(r"```.*?```", "", text_of(document), flags=re.DOTALL)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose))
    return {heading.strip().replace(" ", "-") for heading in plain}


def markdown() -> list[Path]:
    return sorted({*OURS, *(path for path in tracked() if path.suffix == ".md")})


@pytest.mark.parametrize("document", markdown(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    broken = []
    for link in _LINK.findall(_CODE.sub("", text_of(document))):
        if urlsplit(link).scheme:
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name) if name else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def help_of(*arguments: str) -> str:
    """What `headgate ... --help` prints."""
    printed = io.StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit):
        cli.main([*arguments, "--help"])
    return printed.getvalue()


@pytest.mark.parametrize("document", OURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_their_options_exist(document: Path) -> None:
    shown = help_of()
    named = [found for code in _CODE.findall(text_of(document)) for found in _COMMAND.findall(code)]
    for command, rest in named:
        assert command in cli.COMMANDS, command
        flags = re.findall(r"--[a-z][a-z-]*", rest)
        assert not flags or set(flags) <= set(re.findall(r"--[a-z-]+", help_of(command))), command
        # `worker` is started by `serve`, never by people
        assert command == "worker" or re.search(rf"^\s+{command} ", shown, re.MULTILINE), command


def test_the_documents_name_every_command() -> None:
    named = {found[0] for page in OURS for found in _COMMAND.findall(text_of(page))}
    assert named >= set(cli.COMMANDS) - {"worker"}


def test_the_readme_is_short() -> None:
    assert len(text_of(README).splitlines()) <= 200


def test_the_example_of_the_readme_is_the_one_that_is_run() -> None:
    run = text_of(ROOT / "docs" / "quickstart.md")
    shown = re.findall(r"^```(?:sh|http)\n.*?^```$", text_of(README), re.MULTILINE | re.DOTALL)
    assert [block for block in shown if block in run] == shown != []


def sections() -> dict[str, set[str]]:
    """The options of each section."""
    return {name: set(options_of(kind)) for name, kind in {**SECTIONS, **NAMED}.items()}


@pytest.mark.parametrize("document", OURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_options_exist(document: Path) -> None:
    known = sections()
    for section, name in _OPTION.findall(without_later(text_of(document))):
        if section in known:
            assert name.rpartition(".")[2] in known[section], f"{section}.{name}"


@pytest.mark.parametrize("document", OURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_metrics_exist(document: Path) -> None:
    # and what is no metric of the gateway: the consumer's, its table, the job's script
    others = {"headgate_consumer", "headgate_positions", "headgate_spark_job"}
    known = set(metrics.METRICS) | others
    named = {_EXPOSED.sub("", name) for name in _METRIC.findall(text_of(document))}
    assert named <= known


@pytest.mark.parametrize("document", OURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_in_code_style_occur_in_the_code(document: Path) -> None:
    words: set[str] = set()
    for path in PACKAGE.rglob("*"):
        if path.suffix in {".c", ".py", ".lua", ".toml"}:
            words.update(re.findall(r"\w+", path.read_text()))
    named = set(_NAME.findall(without_later(text_of(document)))) - words
    # CloudEvents attributes, and the `_file` variant that every secret option has
    known = {
        name for name in named if name.startswith("ce_") or name.removesuffix("_file") in words
    }
    assert named == known


def test_what_is_generated_is_current() -> None:
    stale = [path for path, text in generated() if path.read_text() != text]
    assert stale == [], "make docs writes them"


def test_the_site_builds_and_fetches_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True)
    assert built.returncode == 0, built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert pages
    fetched = re.compile(
        r"""<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="(https?://[^"]+)"""
    )
    assert [found for page in pages for found in fetched.findall(page.read_text())] == []


def modules() -> set[str]:
    """Every module with something in it, as the file map names it."""
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*")
        if path.suffix in {".c", ".h", ".py", ".lua", ".toml", ".sha256"}
    }
    return {name for name in found if not name.endswith("__init__.py")}


def file_map() -> Iterator[str]:
    """The files that the section "File map" of DESIGN.md names."""
    section = text_of(DESIGN).partition("\n## File map\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            yield from re.findall(r"`([\w./-]+)`", line.split("|")[1])


def test_the_file_map_names_every_module_once() -> None:
    named = list(file_map())
    assert sorted(named) == sorted(set(named))
    assert set(named) == modules()


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


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-docs.lock"])
def test_locked_packages_name_no_index(lock: str) -> None:
    lines = text_of(ROOT / lock).splitlines()
    assert [line for line in lines if "://" in line or "--index" in line or "--find" in line] == []
