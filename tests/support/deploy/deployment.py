"""What deploy/ has for containers and services, as tests look at it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from headgate import cli
from headgate.commands.command_line import with_times_joined
from headgate_spark import cli as spark_cli
from support.root import ROOT

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "headgate"
MANIFESTS = DEPLOY / "kubernetes" / "headgate.yaml"
AUDIT = DEPLOY / "kubernetes" / "spark-audit.yaml"
DOCKERFILE = DEPLOY / "image" / "Dockerfile"
UNITS = DEPLOY / "systemd"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, if it is there
_TOOLS = ROOT / ".venv" / "deploy" / "bin"
# A helm that Go has built takes itself for one of an old Kubernetes.
VERSION = ("--kube-version", "1.37")
# Where the routes of each program's port are declared.
_PAGES = {
    9090: "admin/app.py",
    9091: "supervisor/coalescer_process.py",
    9096: "supervisor/monitor_process.py",
}


class Pod(NamedTuple):
    """A pod of a manifest. name: of what makes it."""

    name: str
    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]

    @property
    def main(self) -> Mapping[str, Any]:
        """The container with our program."""
        found: Mapping[str, Any] = self.spec["containers"][0]
        return found


def tool(name: str) -> Path:
    """A program that looks for mistakes; the test is skipped without it."""
    found = shutil.which(name, path=f"{_TOOLS}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"no {name}: `make deploy-tools` gets it, or Debian's package systemd")
    return Path(found)


def run(*command: str | Path, **environ: str) -> str:
    """What it prints. Fails with what it says if it finds a mistake."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environ}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def rendered(*settings: str) -> str:
    """What the chart makes with these values, `name=value`."""
    given = [part for one in settings for part in ("--set", one)]
    return run(tool("helm"), "template", "headgate", CHART, *VERSION, *given)


def objects(given: Path | str) -> list[dict[str, Any]]:
    """The objects of manifests."""
    text = given if isinstance(given, str) else given.read_text()
    return [found for found in yaml.load_all(text, LOADER) if found]


def pods(found: Sequence[Mapping[str, Any]]) -> Iterator[Pod]:
    """Every pod that they make; of Spark's executors the template."""
    for one in found:
        spec = one.get("spec", {})
        if one["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if "template" in spec:
            template = spec["template"]
            yield Pod(one["metadata"]["name"], template["metadata"], template["spec"])
        for name, text in one.get("data", {}).items():
            if name == "executor.yaml":
                yield Pod("executor", {}, yaml.safe_load(text)["spec"])


def assert_runs(command: Sequence[str]) -> None:
    """The command line is one that the program takes."""
    program, *given = command
    assert program in {"headgate", "headgate-spark"}
    parser = cli.parser(given[:1]) if program == "headgate" else spark_cli.parser()
    parser.parse_args(with_times_joined(given))


def paths_of(port: int) -> set[str]:
    """The pages that a program has on its port."""
    text = (ROOT / "gateway" / "headgate" / _PAGES[port]).read_text()
    return set(re.findall(r'(?:"GET", |add_get\()"(/[a-z]+)"', text))
