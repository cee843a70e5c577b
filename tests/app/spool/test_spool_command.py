"""`headgate spool` over a folder that is damaged: it says plainly what is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.cli import main
from headgate.spool.database import FILE
from headgate.spool.journal import Journal
from support.spool.damage import append, break_page, fill, pages_of


def run(*arguments: str) -> int:
    try:
        return main(["spool", *arguments])
    except SystemExit as ended:
        return int(ended.code or 0)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """300 chunks of one event each, some of them in a page that cannot be read."""
    fill(tmp_path, 300, 500)
    break_page(tmp_path, pages_of(tmp_path, "chunks", 13)[10])
    return tmp_path


def test_list_counts_what_can_be_read_and_says_what_cannot(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("list", str(damaged)) == 1
    shown = capsys.readouterr().out
    [row] = [line.split() for line in shown.splitlines() if line.startswith("orders")]
    [lost] = [line.split() for line in shown.splitlines() if line.startswith("lost")]
    assert int(row[2]) + int(lost[1]) == 300
    assert "cannot be read" in shown


def test_list_says_the_same_to_machines(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", str(damaged), "--json") == 1
    page = json.loads(capsys.readouterr().out)
    [waiting], [lost] = page["waiting"], page["lost"]
    assert waiting["events"] + lost["chunks"] == 300
    assert page["damaged"][0]["table"] == "chunks"
    assert (page["aside"], page["kept"]) == ([], [])


def test_export_writes_what_can_be_read_and_says_what_cannot(
    damaged: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run("export", str(damaged)) == 1
    shown = capfdbinary.readouterr()
    events = [json.loads(line) for line in shown.out.splitlines()]
    assert 280 < len(events) < 300
    assert b"cannot be read" in shown.err
    assert f"lost    {300 - len(events)} chunks".encode() in shown.err


def test_drop_says_what_to_do_instead(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    break_page(damaged, pages_of(damaged, "chunks", 13)[20])
    assert run("drop", str(damaged), "--topic", "orders", "--yes") == 1
    shown = capsys.readouterr().err
    assert "it is damaged" in shown
    assert "delete the folder" in shown


@pytest.mark.parametrize("action", ["list", "export"])
def test_a_file_of_which_nothing_can_be_read_is_said_to_be_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    (tmp_path / FILE).write_bytes(b"none of ours" * 1000)
    assert run(action, str(tmp_path)) == 1
    assert "it is damaged" in capsys.readouterr().err


def test_list_names_the_damaged_file_that_a_start_has_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path / "damaged-17", 3)
    fill(tmp_path, 1)
    assert run("list", str(tmp_path)) == 0
    assert "damaged-17" in capsys.readouterr().out
    assert run("list", str(tmp_path / "damaged-17")) == 0


def test_what_was_set_aside_takes_a_line_for_each_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = Journal(tmp_path)
    for number in range(100):
        journal.commit([], [], [(append(number), ("too large", "forbidden")[number % 2])])
    journal.close()
    assert run("list", str(tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all("50 of orders-0" in line for line in lines)
