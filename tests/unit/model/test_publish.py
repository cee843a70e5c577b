"""Where an event is: a table says what may follow, and one method alone moves it."""

import ast
from pathlib import Path

import pytest

import headgate
from headgate.model.publish import NEXT, Publish, Record, Stage

PACKAGE = Path(headgate.__file__).parent


def publish_at(stage: Stage) -> Publish:
    """An event that came there as it may."""
    ways = {
        Stage.NEW: [],
        Stage.QUEUED: [Stage.QUEUED],
        Stage.RESERVING: [Stage.QUEUED, Stage.RESERVING],
        Stage.LANE: [Stage.LANE],
        Stage.HANDED: [Stage.LANE, Stage.HANDED],
        Stage.STORING: [Stage.LANE, Stage.STORING],
        Stage.ENDED: [Stage.LANE, Stage.ENDED],
    }
    publish = Publish(Record("t", 0, None, b"", [], 0), 0, None, 0, None)
    for step in ways[stage]:
        publish.advance(step)
    return publish


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("after", Stage)
def test_an_event_goes_where_the_table_says_and_nowhere_else(stage: Stage, after: Stage) -> None:
    publish = publish_at(stage)
    assert publish.stage is stage
    if after in NEXT[stage]:
        publish.advance(after)
        assert publish.stage is after
    else:
        with pytest.raises(ValueError, match=f"from {stage.name} to {after.name}"):
            publish.advance(after)
        assert publish.stage is stage


def test_what_has_ended_never_moves_again() -> None:
    assert NEXT[Stage.ENDED] == {Stage.ENDED}


def test_a_stage_is_set_in_one_place() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if ".stage" in text else ():
            targets = node.targets if isinstance(node, ast.Assign) else ()
            if any(isinstance(one, ast.Attribute) and one.attr == "stage" for one in targets):
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found == {"model/publish.py"}
