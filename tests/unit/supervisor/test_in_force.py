"""The configuration in force: where values are from, and what a refused file leaves as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from headgate.config import ConfigError, Settings
from headgate.http.auth import Authenticator
from headgate.supervisor.active_config import ActiveConfig, Sources
from headgate.wiring.reloading import RestartNeededError

TEXT = """[clusters.main]
bootstrap_servers = ["127.0.0.1:1"]
[redis]
url = "redis://127.0.0.1:1/0"
[topics.orders]
key = ["/id"]
"""


def nobody(_settings: Settings) -> Authenticator:
    some: Any = None
    return cast("Authenticator", some)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "headgate.toml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def in_force(file: Path, tmp_path: Path) -> ActiveConfig:
    environ = {"HEADGATE_HTTP__WORKERS": "3", "HEADGATE_HTTP__PORT": "8081"}
    folder = tmp_path / "private"
    folder.mkdir()
    return ActiveConfig(Sources(file, environ, {"HEADGATE_HTTP__WORKERS": "--workers"}), folder)


def test_every_value_has_its_origin(in_force: ActiveConfig) -> None:
    origins = in_force.shown.loaded.origins
    assert origins["http.workers"] == "--workers"
    assert origins["http.port"] == "HEADGATE_HTTP__PORT"
    assert origins["clusters.main.bootstrap_servers"] == "headgate.toml:2"
    assert origins["topics.orders.cluster"].startswith("derived: ")
    assert origins["http.host"] == "default"


def test_a_good_file_is_taken_with_its_origins_and_kept(file: Path, in_force: ActiveConfig) -> None:
    before = in_force.shown
    file.write_text("# a line more\n" + TEXT + 'suppress = "raw"\nkind = "state"\n')
    reload = in_force.reread(nobody)
    assert reload.settings is in_force.shown.loaded.settings
    assert in_force.shown.loaded.origins["topics.orders.key"] == "headgate.toml:7"
    assert in_force.shown.read_at >= before.read_at
    assert in_force.copy.read_text() == file.read_text()
    assert in_force.copy.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (TEXT + "nothing = 1\n", ConfigError),
        (TEXT + "[http]\nidle_timeout_ms = 1000\n", RestartNeededError),
    ],
)
def test_a_refused_file_changes_nothing(
    file: Path, in_force: ActiveConfig, text: str, error: type[Exception]
) -> None:
    before = in_force.shown
    file.write_text(text)
    with pytest.raises(error):
        in_force.reread(nobody)
    assert in_force.shown is before
    assert in_force.copy.read_text() == TEXT


def test_findings_are_of_what_is_in_force(file: Path, in_force: ActiveConfig) -> None:
    assert "topics" not in {one.subject for one in in_force.findings()}
    file.write_text(TEXT.partition("[topics")[0])
    in_force.reread(nobody)
    assert "topics" in {one.subject for one in in_force.findings()}
