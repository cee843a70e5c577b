"""The control plane's answers about replays as tables."""

from collections.abc import Iterator
from typing import Any

from headgate.commands.output import show_facts, show_table
from headgate.core.terminal.figures import duration, share, short
from headgate.core.terminal.progress import Amount, Step
from headgate.core.terminal.style import Ink
from headgate.core.terminal.table import Cell, Column

_COLUMNS = (
    Column("id"), Column("state"), Column("topic"), Column("mode"), Column("done", right=True),
    Column("records", right=True), Column("by"), Column("created"), Column("name"),
)  # fmt: skip
_INKS = {
    "ready": Ink.GOOD,
    "completed": Ink.GOOD,
    "failed": Ink.BAD,
    "cancelled": Ink.FAINT,
    "expired": Ink.FAINT,
}
_TOLD = ("id", "name", "state", "control", "reason", "topic", "from", "to", "filter", "by",
         "created_at", "changed_at", "expires_at")  # fmt: skip


def show_replays(page: dict[str, Any]) -> None:
    """Print the list, and which clusters could not be asked."""
    show_table(_COLUMNS, [_row(one) for one in page["replays"]])
    for one in page["unavailable"]:
        show_facts([("not asked", ", ".join(f"{name} {value}" for name, value in one.items()))])


def show_replay(page: dict[str, Any]) -> None:
    """Print one replay, or what a dry run says that it would be."""
    show_facts(_facts(page))


def replay_step(page: dict[str, Any]) -> Step:
    """How far it is; its part is how much of what was planned has been read."""
    what, done = f"{page['id']} {page['state']}", page["done"]
    total, also = page["planned"]["records"], (Amount(done["bytes"], "B"),)
    return Step(what, done["read"], total, "records", f"{short(done['records'])} taken", also)


def _row(page: dict[str, Any]) -> list[str | Cell]:
    state = page["state"]
    is_paused = page["control"] == "pause" and _INKS.get(state) is None
    return [
        page["id"],
        Cell("paused" if is_paused else state, _INKS.get(state, Ink.PLAIN)),
        page["topic"],
        _mode(page),
        share(replay_step(page).part),
        short(page["done"]["records"]),
        page["by"] or "-",
        page["created_at"] or "-",
        page["name"],
    ]


def _facts(page: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _TOLD:
        if (value := page.get(name)) is not None:
            yield name.replace("_", " "), _text(value)
    yield "deliver", _text(page.get("deliver", {}))
    planned = page["planned"]
    size = short(planned["bytes"], "B")
    covered = "covered" if planned["covered"] else "not covered by the backfill tier"
    records = f"{short(planned['records'])} records, {size}, {covered}"
    yield "planned", f"{records}, about {duration(planned['seconds'])} to copy"
    if (done := page.get("done")) is not None:
        percent = share(replay_step(page).part)
        yield "done", f"{percent}: {short(done['records'])} records, {short(done['bytes'], 'B')}"
    if (result := page.get("result")) is not None:
        yield "result", f"topic {result['topic']} at {result['bootstrap_servers']}"
        for partition, place in result["offsets"].items():
            yield f"partition {partition}", _text(place)


def _mode(page: dict[str, Any]) -> str:
    return str(page.get("deliver", {}).get("mode", "topic"))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return str(value)
