"""Run a command with the newest aiohttp that pyproject.toml allows: `make test-aiohttp`.

pyproject.toml has a range, and the lock has one version of it. The newest version goes to a
temporary folder in front of the environment, so the environment stays as it is. If the installed
version is the newest, the command does not run, because its tests have already passed with it.
"""

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]


def allowed() -> str:
    """Return the requirement of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [requirement] = [name for name in project["dependencies"] if name.startswith("aiohttp>")]
    return str(requirement)


def newest(requirement: str) -> str:
    """Return the newest version in the package index that fits a requirement."""
    command = [*PIP, "--dry-run", "--ignore-installed", "--no-deps", "--report", "-", requirement]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return str(json.loads(run.stdout)["install"][0]["metadata"]["version"])


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(*command: str) -> int:
    """Run the command with the newest version, and return its exit status."""
    requirement, installed = allowed(), version("aiohttp")
    latest = newest(requirement)
    if latest == installed:
        say(f"aiohttp {installed} is the newest of {requirement}: the tests have passed with it")
        return 0
    say(f"aiohttp {latest} is the newest of {requirement}, and {installed} is installed")
    with TemporaryDirectory(prefix="headgate-aiohttp-") as folder:
        subprocess.run([*PIP, "--target", folder, f"aiohttp=={latest}"], check=True)
        paths = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))
        environment = {**os.environ, "PYTHONPATH": paths}
        return subprocess.run(command, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
