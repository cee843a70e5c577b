"""deploy/systemd: the units start commands that there are, with one set of restraints."""

from __future__ import annotations

import shlex
from collections import defaultdict
from pathlib import Path

import pytest

from headgate.config.settings import HttpSettings
from headgate.supervisor.parent import CONFIGURATION
from support.deploy.deployment import UNITS, assert_runs

SERVICES = sorted(UNITS.glob("*.service"))
COMMON = UNITS / "headgate-.service.d" / "common.conf"
Lines = dict[str, list[str]]


def read(file: Path) -> dict[str, Lines]:
    """Sections of a unit; an option may be there several times."""
    found: dict[str, Lines] = defaultdict(lambda: defaultdict(list))
    section = ""
    for line in file.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found[section][name].append(value)
    return found


def by_name(file: Path) -> str:
    return file.stem


def test_every_program_has_a_unit() -> None:
    names = {"", "-blobs-gc", "-coalesce", "-mirror", "-monitor", "-replay"}
    assert {file.stem.removeprefix("headgate") for file in SERVICES} == names


@pytest.mark.parametrize("file", SERVICES, ids=by_name)
def test_it_starts_commands_that_there_are(file: Path) -> None:
    service = read(file)["Service"]
    started = [line for name, lines in service.items() if name.startswith("Exec") for line in lines]
    assert started
    for line in started:
        path, *arguments = shlex.split(line)
        if path == "/bin/kill":
            continue
        assert path.startswith("/opt/headgate/.venv/bin/")
        assert_runs([Path(path).name, *arguments])


@pytest.mark.parametrize("file", SERVICES, ids=by_name)
def test_service_or_its_timer_can_be_enabled(file: Path) -> None:
    enabled = file.with_suffix(".timer") if file.with_suffix(".timer").exists() else file
    wanted = "timers.target" if enabled.suffix == ".timer" else "multi-user.target"
    assert read(enabled)["Install"]["WantedBy"] == [wanted]


@pytest.mark.parametrize("file", SERVICES, ids=by_name)
def test_its_restraints_are_those_of_all(file: Path) -> None:
    """`headgate-.service.d` is for all names that begin so; the gateway has a link into it."""
    assert not (UNITS / "headgate.service.d").is_symlink()  # systemd would not look into it
    assert (UNITS / "headgate.service.d" / "common.conf").resolve() == COMMON.resolve()
    common, own = read(COMMON)["Service"], read(file)["Service"]
    # What is in both is the common one's: drop-ins are read last.
    assert not common.keys() & own.keys()
    assert common["User"] == ["headgate"]
    assert common["KillMode"] == ["mixed"]  # their helpers end after them
    for name in ("NoNewPrivileges", "PrivateDevices", "PrivateTmp", "ProtectHome"):
        assert common[name] == ["yes"]
    # Java compiles while it runs.
    assert ("MemoryDenyWriteExecute" in own) == (file.stem != "headgate-mirror")


def test_a_stopping_gateway_has_time_to_drain() -> None:
    http, service = HttpSettings(), read(UNITS / "headgate.service")["Service"]
    needed_ms = http.shutdown_delay_ms + http.drain_timeout_ms + 5_000
    assert int(service["TimeoutStopSec"][0]) * 1000 > needed_ms


def test_a_worker_that_is_out_of_memory_does_not_end_the_gateway() -> None:
    assert read(UNITS / "headgate.service")["Service"]["OOMPolicy"] == ["continue"]


@pytest.mark.parametrize("file", SERVICES, ids=by_name)
def test_a_configuration_that_cannot_be_used_is_tried_once(file: Path) -> None:
    """systemd looks at the exit code of the main process alone (RestartPreventExitStatus)."""
    assert "ExecStartPre" not in read(file)["Service"]
    assert read(COMMON)["Service"]["RestartPreventExitStatus"] == [str(CONFIGURATION)]
