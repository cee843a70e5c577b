"""The in-flight budget."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from headgate.ingest.admission import (
    TIMES_FREE,
    Admission,
    InFlightLimit,
)
from headgate.model.outcome import Failure, Reason


def refused(failure: Failure | None) -> Failure:
    assert failure is not None
    assert (failure.reason, failure.retry_after_s) == (Reason.OVERLOADED, 1)
    return failure


def test_bytes_and_events_are_admitted_up_to_the_budget() -> None:
    admission = Admission(100, 10)
    for size in (60, 20, 10, 5, 2, 1, 1, 1):
        assert admission.take_bytes("p", size) is None
    failure = refused(admission.take_bytes("p", 1))
    assert failure.figures == {"limit": "in_flight_max_bytes"}
    assert "admission.in_flight_max_bytes = 100" in failure.detail
    for _ in range(10):
        assert admission.take_events("p", 1) is None
    assert refused(admission.take_events("p", 1)).figures == {"limit": "in_flight_max_events"}
    admission.give("p", 60, 10)
    assert (admission.bytes, admission.events) == (40, 0)
    assert admission.take_bytes("p", 40) is None


def test_what_is_larger_than_the_whole_budget_is_admitted_alone() -> None:
    admission = Admission(100, 10)
    assert admission.take_bytes("p", 1000) is None
    assert admission.take_bytes("p", 1) is not None
    admission.give("p", 1000, 0)
    assert admission.take_events("p", 50) is None
    assert admission.take_events("p", 1) is not None
    admission.give("p", 0, 50)
    assert (admission.bytes, admission.events) == (0, 0)


def test_a_refusal_takes_nothing() -> None:
    admission = Admission(10, 1)
    admission.take_bytes("p", 10)
    admission.take_events("p", 1)
    for _ in range(5):
        assert admission.take_bytes("other", 3) is not None
        assert admission.take_events("other", 3) is not None
    assert (admission.bytes, admission.events) == (10, 1)
    assert admission.held_by("other") == (0, 0)


def test_under_pressure_small_requests_get_in_where_large_ones_do_not() -> None:
    admission = Admission(1000, 100)
    assert admission.take_bytes("p", 850) is None
    failure = refused(admission.take_bytes("q", 76))
    assert "more than half of the free part" in failure.detail
    assert admission.take_bytes("q", 75) is None
    assert admission.take_bytes("r", 1) is None


def test_a_flood_leaves_a_fifth_to_the_others_and_they_get_it() -> None:
    admission = Admission(10**6, 1000)
    assert admission.take_events("rest", 1) is None
    admission.give("rest", 0, 1)
    while admission.take_events("flood", 1) is None:
        pass
    assert admission.held_by("flood") == (0, 800)
    failure = refused(admission.take_events("flood", 1))
    assert failure.figures == {"limit": "in_flight_max_events", "producer": "flood"}
    assert "'flood' has 800 events in flight" in failure.detail
    assert [admission.take_events("rest", 1) for _ in range(100)] == [None] * 100


def test_floods_end_up_with_equal_parts() -> None:
    admission = Admission(10**6, 1000)
    names = ("a", "b", "c")
    for name in names:
        while admission.take_events(name, 1) is None:  # the first got most of it
            pass
    for _ in range(100):  # each wants all that it can get, and a part of all ends
        for name in names:
            admission.give(name, 0, admission.held_by(name)[1] // 10)
        while [admission.take_events(name, 1) for name in names].count(None):
            pass
    held = [admission.held_by(name)[1] for name in names]
    assert max(held) - min(held) < 10, held
    assert sum(held) > 900


def test_a_producers_own_limit_refuses_it_and_nobody_else() -> None:
    admission = Admission(1000, 100)
    admission.limits = {"small": InFlightLimit(50, 5)}
    assert admission.take_bytes("small", 50) is None
    failure = refused(admission.take_bytes("small", 1))
    assert failure.figures == {"limit": "max_in_flight_bytes", "producer": "small"}
    assert admission.take_bytes("other", 500) is None
    assert admission.take_events("small", 5) is None
    failure = refused(admission.take_events("small", 1))
    assert failure.figures == {"limit": "max_in_flight_events", "producer": "small"}
    assert admission.take_events("other", 50) is None
    admission.give("small", 50, 5)
    assert admission.take_bytes("small", 70) is None, "alone: or it would never get in"


# ---- whatever producers do

PRODUCERS = ("flood", "b", "c", "d")
MAX_BYTES, MAX_EVENTS = 10_000, 500


@dataclass
class World:
    """Requests in flight beside the budget that let them in."""

    admission: Admission = field(default_factory=lambda: Admission(MAX_BYTES, MAX_EVENTS))
    open: list[tuple[str, int, int]] = field(default_factory=list)

    def post(self, producer: str, size: int, events: int) -> Failure | None:
        """As a request does it: bytes first."""
        failure = self.admission.take_bytes(producer, size)
        if failure is not None:
            return failure
        failure = self.admission.take_events(producer, events)
        if failure is not None:
            self.admission.give(producer, size, 0)
            return failure
        self.open.append((producer, size, events))
        return None

    def end(self, index: int) -> None:
        if self.open:
            self.admission.give(*self.open.pop(index % len(self.open)))

    def held(self, producer: str) -> tuple[int, int]:
        mine = [one for one in self.open if one[0] == producer]
        return sum(one[1] for one in mine), sum(one[2] for one in mine)


posts = st.tuples(st.sampled_from(PRODUCERS), st.integers(0, 12_000), st.integers(0, 600))
ends = st.integers(0, 10_000)


@given(st.lists(st.one_of(posts, ends), max_size=100))
def test_no_budget_is_exceeded_and_everything_is_given_back(steps: list[object]) -> None:
    world = World()
    admission = world.admission
    for step in steps:
        if isinstance(step, int):
            world.end(step)
        else:
            world.post(*step)  # type: ignore[misc]  # the other kind of step
        for name in PRODUCERS:
            assert admission.held_by(name) == world.held(name)
        assert admission.bytes == sum(one[1] for one in world.open)
        assert admission.events == sum(one[2] for one in world.open)
        # The only way beyond a budget is to come alone.
        assert admission.bytes <= MAX_BYTES or sum(one[1] > 0 for one in world.open) == 1
        assert admission.events <= MAX_EVENTS or sum(one[2] > 0 for one in world.open) == 1
    while world.open:
        world.end(0)
    assert (admission.bytes, admission.events) == (0, 0)
    assert not admission._held, "names are chosen by clients, so none may be kept"


@given(st.lists(st.integers(1, 100), max_size=200))
def test_who_is_alone_gets_all_of_it(sizes: list[int]) -> None:
    admission = Admission(MAX_BYTES, MAX_EVENTS)
    for size in sizes:
        admission.take_events("sole", size)
    while admission.take_events("sole", 1) is None:
        pass
    assert admission.events == MAX_EVENTS


OTHERS = PRODUCERS[1:]
# With this much each they fit beside any flood, whatever it did before (see the module): a flood
# leaves a fifth free, and the last of the others still finds a quarter of its own part free.
PART = TIMES_FREE * MAX_EVENTS // ((TIMES_FREE + 1) * (TIMES_FREE * len(OTHERS) + 1))
flood_posts = st.tuples(st.just("flood"), st.just(0), st.integers(1, 600))
other_posts = st.tuples(st.sampled_from(OTHERS), st.just(0), st.integers(1, PART // 3))


@given(st.lists(st.one_of(flood_posts, other_posts, ends), max_size=200))
def test_nobody_within_a_fair_part_is_refused_because_of_a_flood(steps: list[object]) -> None:
    world = World()
    world.post("b", 0, 1)  # there is company: what was all one producer's is shared from now on
    for step in steps:
        if isinstance(step, int):
            world.end(step)
            continue
        name, _, events = step  # type: ignore[misc]  # the other kind of step
        if name == "flood" and not world.admission.events:
            continue  # it would be let in alone, over the whole budget
        if name == "flood" or world.held(name)[1] + events <= PART:
            failure = world.post(name, 0, events)
            assert name == "flood" or failure is None, f"{failure} with {world.open}"
