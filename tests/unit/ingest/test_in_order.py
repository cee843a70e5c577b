"""`InOrder` against a model that is a list: whatever waits, each key's events go on in order."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.ingest.turn import InOrder
from headgate.model.publish import Publish, Record

KEYS = (b"a", b"b", None)


def event(key: bytes | None, index: int) -> Publish:
    return Publish(Record("t", 0, key, b"", [], 0), 0, None, index, None)


class Model:
    """Everything that ever entered, in order; who may be gone follows from it alone."""

    def __init__(self) -> None:
        self.entered: list[Publish] = []
        self.waits: dict[Publish, bool] = {}
        self.dropped: set[Publish] = set()

    def expected(self, key: bytes | None) -> list[Publish]:
        mine = [p for p in self.entered if p.record.key == key and p not in self.dropped]
        if key is None:
            return [p for p in mine if not self.waits[p]]
        first = next((i for i, p in enumerate(mine) if self.waits[p]), len(mine))
        return mine[:first]


class World:
    """Runs a script on both; some steps are taken from inside `go_on`."""

    def __init__(self, script: list[tuple[int, int, bool, bool]]) -> None:
        self.script = script
        self.model = Model()
        self.gone: list[Publish] = []
        self.order = InOrder(self.go_on)

    def run(self) -> None:
        while self.script:
            self.step()
            self.check()
        for publish in self.model.entered:
            self.settle(publish, self.order.ready)
        self.check()
        assert len(self.order) == 0

    def step(self) -> None:
        what, which, waits, _ = self.script.pop(0)
        entered = self.model.entered
        if what < 4 or not entered:
            publish = event(KEYS[which % len(KEYS)], len(entered))
            entered.append(publish)
            self.model.waits[publish] = waits
            self.order.enter(publish, waits)
        elif what < 6:
            self.settle(entered[which % len(entered)], self.order.ready)
        else:
            publish = entered[which % len(entered)]
            was_here = publish not in self.gone and publish not in self.model.dropped
            if was_here:
                self.model.dropped.add(publish)
            assert self.order.drop(publish) is was_here

    def settle(self, publish: Publish, ready: Callable[[Publish], None]) -> None:
        self.model.waits[publish] = False
        ready(publish)

    def go_on(self, publish: Publish) -> None:
        assert publish not in self.gone
        assert publish not in self.model.dropped
        self.gone.append(publish)
        if self.script and self.script[0][3]:
            self.step()

    def check(self) -> None:
        for key in KEYS:
            expected = self.model.expected(key)
            gone = [publish for publish in self.gone if publish.record.key == key]
            assert set(gone) == set(expected)
            assert key is None or gone == expected
        standing = len(self.model.entered) - len(self.gone) - len(self.model.dropped)
        assert len(self.order) == standing


STEPS = st.tuples(st.integers(0, 7), st.integers(0, 30), st.booleans(), st.booleans())


@given(st.lists(STEPS, max_size=60))
def test_each_keys_events_go_on_in_order_whoever_waits(
    script: list[tuple[int, int, bool, bool]],
) -> None:
    World(script).run()


def test_an_event_that_enters_from_within_goes_on_after_those_before_it() -> None:
    seen: list[int] = []

    def go_on(publish: Publish) -> None:
        if publish.index == 0:
            order.enter(event(b"k", 3), False)
        seen.append(publish.index)

    order = InOrder(go_on)
    first, second = event(b"k", 0), event(b"k", 1)
    order.enter(first, True)
    order.enter(second, True)
    order.ready(second)
    order.ready(first)
    assert seen == [0, 1, 3]


def test_an_error_in_go_on_holds_up_nobody_behind_it_for_good() -> None:
    seen: list[int] = []

    def go_on(publish: Publish) -> None:
        if publish.index == 0:
            raise LookupError
        seen.append(publish.index)

    order = InOrder(go_on)
    first, second = event(b"k", 0), event(b"k", 1)
    order.enter(first, True)
    order.enter(second, False)
    with pytest.raises(LookupError):
        order.ready(first)
    order.enter(event(b"k", 2), False)
    assert seen == [1, 2]
    assert len(order) == 0
