"""A configuration that does not name the spool any more, while events lie there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.cli import main
from support.clients.http_client import exchange
from support.process.stack import Gateway, eventually
from support.spool.damage import fill

AWAY = """
[clusters.main]
bootstrap_servers = ["127.0.0.1:1"]
[topics.clicks]
keyless = "spread"
"""
SPOOL = '[spool]\npath = "{}"\n'


def is_live(gateway: Gateway) -> bool:
    try:
        return exchange(gateway.port, "GET", "/live").status == 200
    except OSError:
        return False


def log_of(gateway: Gateway) -> str:
    return gateway.config.with_name("gateway.log").read_text()


async def exit_code(gateway: Gateway) -> int | None:
    await eventually(lambda: gateway.exit_code is not None, 60, 0.1)
    return gateway.exit_code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five events wait there."""
    fill(tmp_path / "spool", 5)
    return tmp_path / "spool"


@pytest.fixture
async def gateway(
    folder: Path,
    tmp_path: Path,
    start_gateway: Callable[..., Gateway],
    monkeypatch: pytest.MonkeyPatch,
) -> Gateway:
    """It has started with that spool, and ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    gateway = start_gateway(AWAY + SPOOL.format(folder), wait=False)
    await eventually(lambda: is_live(gateway), 60, 0.1)
    return gateway


async def test_a_start_without_the_spool_is_refused_with_the_command_to_run(
    gateway: Gateway, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.terminate()
    assert await exit_code(gateway) == 0
    gateway.config.write_text(AWAY)
    gateway.restart(wait=False)
    assert await exit_code(gateway) == 2
    command = f"headgate spool drain {folder} --config {gateway.config}"
    assert f"5 spooled events in {folder} would stay there" in log_of(gateway)
    assert f"`{command}`" in log_of(gateway)
    assert main(["check", "--config", str(gateway.config)]) == 1
    assert command in capsys.readouterr().out


async def test_so_is_one_with_another_spool_unless_the_former_is_abandoned(
    gateway: Gateway, folder: Path, start_gateway: Callable[..., Gateway]
) -> None:
    gateway.terminate()
    assert await exit_code(gateway) == 0
    gateway.config.write_text(AWAY + SPOOL.format(folder.with_name("other")))
    gateway.restart(wait=False)
    assert await exit_code(gateway) == 2
    gateway._command.append("--abandon-spool")
    gateway.restart(wait=False)
    await eventually(lambda: is_live(gateway), 60, 0.1)
    assert "spool abandoned because of --abandon-spool" in log_of(gateway)
    gateway.terminate()
    assert await exit_code(gateway) == 0
    gateway._command.remove("--abandon-spool")
    gateway.restart(wait=False)  # it was said once, and is done
    await eventually(lambda: is_live(gateway), 60, 0.1)


async def test_a_reload_without_the_spool_is_refused_with_the_command_to_run(
    gateway: Gateway, folder: Path
) -> None:
    gateway.config.write_text(AWAY)
    gateway.reload()
    await eventually(lambda: "these options need a restart: spool.path" in log_of(gateway), 60, 0.1)
    command = f"headgate spool drain {folder} --config {gateway.config}"
    assert f"5 spooled events in {folder} would stay there" in log_of(gateway)
    assert f"`{command}`" in log_of(gateway)
    assert is_live(gateway)


async def test_an_empty_spool_may_be_taken_out(
    gateway: Gateway, folder: Path, tmp_path: Path
) -> None:
    gateway.terminate()
    assert await exit_code(gateway) == 0
    assert main(["spool", "drop", str(folder), "--yes"]) == 0
    gateway.config.write_text(AWAY)
    gateway.restart(wait=False)
    await eventually(lambda: is_live(gateway), 60, 0.1)
    assert not list((tmp_path / "state" / "headgate").iterdir())
