"""The files in deploy/ name every option, with its default, and cannot rot."""

import re
import subprocess
import sys
import tomllib
from dataclasses import MISSING
from hashlib import sha256
from pathlib import Path

import pytest

from headgate.config import load
from headgate.config.reference import EXAMPLE_NAMES
from headgate.config.settings import NAMED, SECTIONS
from headgate.model.policy import Option, options_of
from support.identity.authority import Authority
from support.root import ROOT

DEPLOY = ROOT / "deploy"
REFERENCE = DEPLOY / "config" / "reference.toml"
MINIMAL = DEPLOY / "config" / "minimal.toml"
PRODUCTION = DEPLOY / "config" / "production.toml"
ALL_SECTIONS = {**SECTIONS, **NAMED}


def table_of(tree: dict[str, dict[str, object]], section: str) -> dict[str, object]:
    table = tree[section]
    return table[EXAMPLE_NAMES[section]] if section in NAMED else table  # type: ignore[return-value]


def has_plain_default(option: Option) -> bool:
    return option.default not in (None, MISSING) and not option.about.derived


def test_the_reference_sets_every_default_and_nothing_else() -> None:
    tree = tomllib.loads(REFERENCE.read_text())
    assert tree.keys() == ALL_SECTIONS.keys()
    for section, kind in ALL_SECTIONS.items():
        options = options_of(kind).values()
        expected = {each.name: each.default for each in options if has_plain_default(each)}
        required = {each.name for each in options if each.required}
        written = table_of(tree, section)
        values = {name: _frozen(value) for name, value in written.items() if name not in required}
        assert values == expected, section
        assert required <= written.keys(), section


def test_the_reference_names_every_option_of_its_section() -> None:
    for section, text in _texts_of_sections().items():
        named = set(re.findall(r"^(?:# )?(\w+) = ", text, re.MULTILINE))
        options = options_of(ALL_SECTIONS[section])
        files = {f"{each.name}_file" for each in options.values() if each.about.secret}
        assert named == options.keys() | files


def test_every_example_of_the_reference_is_taken_when_uncommented(tmp_path: Path) -> None:
    text = re.sub(r"^# (\w+ = )", r"\1", REFERENCE.read_text(), flags=re.MULTILINE)
    assert tomllib.loads(text)["clusters"]["main"]["sasl_mechanism"] == "SCRAM-SHA-512"


@pytest.mark.parametrize("file", [REFERENCE, MINIMAL], ids=lambda file: file.name)
def test_reference_and_minimal_configuration_load(file: Path) -> None:
    found = load(file, {})
    assert found.topics[0].cluster == "main"
    assert found.http.port == 8080


def test_the_file_for_production_passes_the_strict_check(tmp_path: Path) -> None:
    """With the files that it names, and the folder of the systemd units."""
    authority = Authority(tmp_path)
    pair = authority.issue("gateway.example.com")
    secrets = {
        "tls.crt": pair.certificate.read_text(),
        "tls.key": pair.key.read_text(),
        "kafka-ca.pem": authority.file.read_text(),
        "redis-ca.pem": authority.file.read_text(),
        "kafka-password": "secret\n",
        "redis-url": "rediss://gateway:secret@redis.example.com:6379/0\n",
    }
    text = PRODUCTION.read_text()
    assert set(re.findall(r"/etc/headgate/([\w.-]+)", text)) == secrets.keys()
    for name, content in secrets.items():
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o600)
    (tmp_path / "state").mkdir()
    file = tmp_path / "headgate.toml"
    text = text.replace("/etc/headgate", str(tmp_path))
    for number, name in enumerate(re.findall(r"PASTE-THE-HASH-OF-headgate-token-\w+", text)):
        text = text.replace(name, sha256(b"token %d" % number).hexdigest())
    file.write_text(text.replace("/var/lib/headgate", str(tmp_path / "state")))
    command = [sys.executable, "-m", "headgate", "check", "--config", str(file), "--strict"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_reference_means_the_defaults() -> None:
    reference, minimal = load(REFERENCE, {}), load(MINIMAL, {})
    for section in ("http", "admission", "redis", "auth", "logs", "clusters"):
        assert getattr(reference, section) == getattr(minimal, section)


@pytest.mark.parametrize("kind", ALL_SECTIONS.values(), ids=lambda kind: kind.__name__)
def test_every_option_is_declared_completely(kind: type) -> None:
    for option in options_of(kind).values():
        assert option.about.sentence.endswith("."), option.name
        if option.kind is int or "int" in str(option.kind):
            assert option.about.minimum is not None, option.name
            assert option.about.maximum is not None, option.name
        if option.default in (None, MISSING):
            assert option.about.example, option.name


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _texts_of_sections() -> dict[str, str]:
    parts = re.split(r"^\[([^\]]+)\]$", REFERENCE.read_text(), flags=re.MULTILINE)[1:]
    names = (header.split(".")[0] for header in parts[::2])
    return dict(zip(names, parts[1::2], strict=True))
