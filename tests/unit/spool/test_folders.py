"""The note of the folders that a gateway has spooled to."""

from __future__ import annotations

from pathlib import Path

from headgate.spool.database import FILE
from headgate.spool.folders import LeftBehind, SpoolFolders
from headgate.spool.journal import Journal
from support.spool.damage import PAGE, fill, overwrite


def folders(tmp_path: Path, config: str = "headgate.toml") -> SpoolFolders:
    return SpoolFolders(tmp_path / config, {"STATE_DIRECTORY": f"{tmp_path / 'state'}:/other"})


def test_what_lies_in_a_folder_that_is_not_named_any_more_is_found(tmp_path: Path) -> None:
    former = tmp_path / "spool"
    folders(tmp_path).note(str(former))
    fill(former, 3)
    assert folders(tmp_path).left_behind(None) == [LeftBehind(former, 3)]
    assert folders(tmp_path).left_behind(str(tmp_path / "new")) == [LeftBehind(former, 3)]
    assert folders(tmp_path).left_behind(str(former)) == []
    assert folders(tmp_path, "other.toml").left_behind(None) == []


def test_it_stays_noted_until_it_is_empty_or_abandoned(tmp_path: Path) -> None:
    former = tmp_path / "spool"
    folders(tmp_path).note(str(former))
    fill(former, 3)
    folders(tmp_path).note(None)
    [left] = folders(tmp_path).left_behind(None)
    folders(tmp_path).forget([left])
    assert folders(tmp_path).left_behind(None) == []
    folders(tmp_path).note(str(former))
    journal = Journal(former)
    journal.drop(None)
    journal.close()
    folders(tmp_path).note(None)
    fill(former, 1)
    assert folders(tmp_path).left_behind(None) == []


def test_a_folder_that_another_process_uses_is_its_own(tmp_path: Path) -> None:
    former = tmp_path / "spool"
    fill(former, 3)
    folders(tmp_path).note(str(former))
    journal = Journal(former)
    assert folders(tmp_path).left_behind(None) == []
    folders(tmp_path).note(None)
    journal.close()
    assert folders(tmp_path).left_behind(None) == [LeftBehind(former, 3)]


def test_a_damaged_spool_is_not_forgotten(tmp_path: Path) -> None:
    former = tmp_path / "spool"
    fill(former, 3)
    folders(tmp_path).note(str(former))
    overwrite(former / FILE, 0, b"\xff" * PAGE)
    assert folders(tmp_path).left_behind(None) == [LeftBehind(former, 3)]
    (former / FILE).write_bytes(b"none of ours" * 1000)
    [left] = folders(tmp_path).left_behind(None)
    assert str(left) == f"events in {former}"


def test_a_state_that_cannot_be_written_is_no_reason_not_to_start(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    folders(tmp_path).note(str(tmp_path / "spool"))
    assert folders(tmp_path).left_behind(None) == []
