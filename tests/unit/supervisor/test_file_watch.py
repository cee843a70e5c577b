"""The watch finds each new state of a file once, and not while it is being written."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from headgate.supervisor.active_config import FileWatch


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "headgate.toml"
    file.write_text("one")
    return file


def _watch(file: Path) -> FileWatch:
    watch = FileWatch()
    watch.add(file)
    return watch


def _looks(watch: FileWatch, times: int) -> list[bool]:
    return [watch.look() for _ in range(times)]


def test_a_new_state_is_found_once_by_the_second_look(file: Path) -> None:
    watch = _watch(file)
    assert not any(_looks(watch, 3))
    for text in ("three", "fourth"):
        file.write_text(text)
        assert _looks(watch, 4) == [False, True, False, False]


def test_a_file_that_goes_on_changing_waits_for_two_equal_looks(file: Path) -> None:
    watch = _watch(file)
    for length in range(4, 9):
        file.write_text("x" * length)
        assert not watch.look()
    assert _looks(watch, 2) == [True, False]


def test_a_file_that_is_as_before_again_is_no_new_state(file: Path) -> None:
    watch = _watch(file)
    away = file.with_suffix(".away")
    file.rename(away)
    assert not watch.look()
    away.rename(file)
    assert not any(_looks(watch, 3))


def test_a_file_that_goes_away_or_comes_back_is_a_change(file: Path) -> None:
    watch = _watch(file)
    away = file.with_suffix(".away")
    file.rename(away)
    assert _looks(watch, 3) == [False, True, False]
    away.rename(file)
    assert _looks(watch, 3) == [False, True, False]


def test_a_link_that_is_turned_is_a_change(tmp_path: Path) -> None:
    """As a kubelet replaces a ConfigMap: `..data` leads to another folder, names stay links."""
    for number in (1, 2):
        (tmp_path / f"..{number}").mkdir()
        made = tmp_path / f"..{number}" / "headgate.toml"
        made.write_text("same length")
        os.utime(made, ns=(1, 1))  # the time does not tell them apart
    data, file = tmp_path / "..data", tmp_path / "headgate.toml"
    data.symlink_to("..1")
    file.symlink_to("..data/headgate.toml")
    watch = _watch(file)
    assert not any(_looks(watch, 3))
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").replace(data)
    assert _looks(watch, 3) == [False, True, False]


async def test_what_changed_before_the_first_look_is_asked_for(file: Path) -> None:
    watch = _watch(file)
    await asyncio.to_thread(file.write_text, "another")
    asked = asyncio.Event()
    running = asyncio.create_task(watch.run(0.005, asked.set))
    await asyncio.wait_for(asked.wait(), 10)
    running.cancel()
