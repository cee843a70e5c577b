"""Which version is taken for the one before this."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.upgrades import former
from support.upgrades.former import NoHistoryError, newest


@pytest.mark.parametrize(
    ("tags", "of_this", "expected"),
    [
        ([], [], None),
        (["v0.2.0", "v0.1.0"], [], "v0.2.0"),
        (["v0.2.0", "v0.1.0"], ["v0.2.0"], "v0.1.0"),  # this commit is the release itself
        (["v0.1.0"], ["v0.1.0"], None),
    ],
)
def test_it_is_the_newest_tag_before_this_commit(
    tags: list[str], of_this: list[str], expected: str | None
) -> None:
    assert newest(tags, of_this) == expected


def test_without_history_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in an archive of the sources."""
    monkeypatch.setattr(former, "ROOT", tmp_path)
    with pytest.raises(NoHistoryError, match="no clone"):
        former.former_ref()
