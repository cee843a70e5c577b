"""Figures over time: steps, gaps, sums over labels, and the bound."""

from headgate.metrics.fleet import History

NAME = "events"


def noted(history: History, *rows: tuple[float, dict[tuple[str, ...], float]]) -> History:
    for now, table in rows:
        history.note(now, {NAME: table}, {})
    return history


def test_a_counter_becomes_its_increase_a_second_in_each_step() -> None:
    history = noted(
        History(10, 6, 10_000),
        (100, {("a",): 50}),
        (110, {("a",): 70}),
        (120, {("a",): 70}),
        (130, {("a",): 100}),
    )
    found = history.read(NAME, by=(0,))
    assert (found.start, found.step_s) == (100, 10)
    assert found.rows == {("a",): [5.0, 2.0, 0.0, 3.0]}


def test_nothing_is_due_within_a_step_and_a_clock_that_goes_back_changes_nothing() -> None:
    history = noted(History(10, 6, 10_000), (100, {("a",): 10}))
    assert not history.is_due(109.9)
    assert history.is_due(110)
    noted(history, (95, {("a",): 500}), (105, {("a",): 500}))
    assert history.read(NAME, by=(0,)).rows == {("a",): [1.0]}


def test_what_was_counted_while_nobody_looked_is_spread_over_the_gap() -> None:
    history = noted(History(10, 6, 10_000), (100, {("a",): 10}), (130, {("a",): 70}))
    assert history.read(NAME, by=(0,)).rows == {("a",): [1.0, 2.0, 2.0, 2.0]}


def test_the_ring_keeps_its_steps_and_no_more() -> None:
    history = History(10, 4, 10_000)
    for step in range(9):
        noted(history, (100 + 10 * step, {("a",): 10.0 * (step + 1) * (step + 2) / 2}))
    found = history.read(NAME, by=(0,))
    assert found.rows == {("a",): [6.0, 7.0, 8.0, 9.0]}
    assert found.start == 150
    assert history.read(NAME, by=(0,), span_s=20).rows == {("a",): [8.0, 9.0]}
    noted(history, (10_000, {("a",): 451}))  # after a gap longer than the ring
    assert history.read(NAME, by=(0,)).rows[("a",)][-1] > 0
    assert len(history.read(NAME, by=(0,)).rows[("a",)]) == 4


def test_rows_are_added_up_by_labels_and_chosen_by_values() -> None:
    table: dict[tuple[str, ...], float] = {("a", "x"): 10, ("a", "y"): 20, ("b", "x"): 40}
    history = noted(History(10, 6, 10_000), (100, table))
    assert history.read(NAME).rows == {(): [7.0]}
    assert history.read(NAME, by=(0,)).rows == {("a",): [3.0], ("b",): [4.0]}
    assert history.read(NAME, by=(1,), where={0: {"a"}}).rows == {("x",): [1.0], ("y",): [2.0]}
    assert history.read(NAME, by=(0,)).total() == [7.0]
    assert history.read("others").rows == {}


def test_gauges_are_kept_as_they_are() -> None:
    history = History(10, 6, 10_000)
    for now, value in ((100, 7.0), (110, 0.0), (120, 3.0)):
        history.note(now, {}, {NAME: {(): value}})
    assert history.read(NAME).rows == {(): [7.0, 0.0, 3.0]}


def test_nothing_is_kept_of_what_never_moved() -> None:
    history = noted(History(10, 6, 10_000), (100, {("a",): 0}))
    assert history.read(NAME, by=(0,)).rows == {}


def test_the_bound_lets_the_stillest_go_and_they_do_not_jump_when_they_come_back() -> None:
    history = History(10, 6, 3 * 624)
    assert history.max_series == 3
    noted(history, (100, {("a",): 10, ("b",): 10, ("c",): 10}))
    noted(history, (110, {("a",): 10, ("b",): 20, ("c",): 20}))
    noted(history, (120, {("b",): 30, ("c",): 30, ("d",): 10}))
    assert set(history.read(NAME, by=(0,)).rows) == {("b",), ("c",), ("d",)}
    noted(history, (130, {("a",): 5000, ("b",): 30, ("c",): 40, ("d",): 20}))
    rows = history.read(NAME, by=(0,)).rows
    assert set(rows) == {("a",), ("c",), ("d",)}
    assert max(rows[("a",)]) == 0  # what it had counted before is not this step's


def test_while_all_move_no_new_one_is_kept() -> None:
    history = History(10, 6, 2 * 624)
    noted(history, (100, {("a",): 10, ("b",): 10, ("c",): 10}))
    assert set(history.read(NAME, by=(0,)).rows) == {("a",), ("b",)}
