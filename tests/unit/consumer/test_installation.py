"""What `pip install headgate` gives: the library for consumers. The gateway takes an extra."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import headgate
from support.root import ROOT

LIBRARY = ("consumer", "consumer.claims", "consumer.sql_offsets", "consumer.idempotence")


def run_without(modules: set[str], code: str) -> subprocess.CompletedProcess[str]:
    """Run code where these modules are not installed."""
    hide = f"import sys; sys.modules.update(dict.fromkeys({sorted(modules)!r}))\n"
    environment = {**os.environ, "PYTHONPATH": str(Path(headgate.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-c", hide + code],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def server_packages() -> set[str]:
    """What the extra `server` names, as modules."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.split(r"[\[~>=;]", one)[0] for one in project["optional-dependencies"]["server"]]
    return {name.strip().replace("-", "_") for name in names}


def test_the_library_needs_nothing_of_the_server() -> None:
    code = "".join(f"import headgate.{one}\n" for one in LIBRARY)
    done = run_without({*server_packages(), "hiredis"}, code)
    assert done.returncode == 0, done.stderr


def test_a_command_without_the_server_says_what_to_install(tmp_path: Path) -> None:
    config = tmp_path / "headgate.toml"
    config.write_text('[clusters.main]\nbootstrap_servers = "127.0.0.1:1"\n[topics.orders]\n')
    for command in ("serve", "coalesce", "monitor", "init"):
        arguments = [command, "--config", str(config)]
        code = f"from headgate.cli import main\nsys.exit(main({arguments!r}))"
        done = run_without(server_packages(), code)
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert "is missing: pip install 'headgate[server]'" in done.stderr
