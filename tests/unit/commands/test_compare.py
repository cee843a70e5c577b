"""What `headgate compare` prints of topics that hold anything."""

from __future__ import annotations

import pytest

from headgate.commands.compare import compared, show
from headgate.commands.side_by_side import Side, Window

WHOLE = Window(None, 1 << 62, 0)


def test_records_may_be_stamped_with_anything(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = Side(WHOLE), Side(WHOLE)
    first.see(b"\xff\x1b[2J", b"A", 1, 0, 1_750_000_200_000_000)  # in microseconds
    second.see(b"\xff\x1b[2J", b"A", 1, 0, -1)
    found = compared(("old", "new"), (first, second), has_before=False)
    show(found)
    printed = capsys.readouterr().out
    assert "9999-12-31T23:59:59.999Z" in printed
    assert "1969-12-31T23:59:59.999Z" in printed
    assert "\x1b[2J" not in printed
    assert "No differences" in printed
    assert found.as_json()["differs"] is False


def test_keys_are_named_where_they_differ(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = Side(WHOLE), Side(WHOLE)
    first.see(b"deal-\xff", b"A", 1, 0, 5)
    found = compared(("old", "new"), (first, second), has_before=False)
    show(found)
    assert "only in the first" in (printed := capsys.readouterr().out)
    assert "deal-\\xff" in printed
    assert "They differ." in printed
