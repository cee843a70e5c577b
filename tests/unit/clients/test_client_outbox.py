"""A producer's core under random answers: nothing lost, nothing twice, each key in its order.

The outbox is played against the gateway of tests, which remembers Idempotency-Keys. Answers come
in any order, are lost with the events written or not, refuse the request or some of its events.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate_client import Buffering, Event, Limits, Observer, Outcome, Retry
from headgate_client.core.answer import Answer
from headgate_client.core.delivery import Chances, Post
from headgate_client.core.ids import uuid7
from headgate_client.core.lanes import Entry
from headgate_client.core.outbox import Load, Outbox
from headgate_client.settings import Overtaken
from headgate_client.testing import FailEvents, FakeGateway, Fault, Lose, Record, Refuse
from headgate_client.wire import Request, Wire

TOPIC = "deals"
KEYS = ("a", "b")
LIMITS = Limits(max_events=4)


class Play:
    """One history. The clock moves when told to."""

    def __init__(self, retry: Retry, *, one_per_key: bool = False, dedupe: bool = False) -> None:
        self.gateway, self.dedupe = FakeGateway(dedupe=dedupe), dedupe
        self.wire = Wire(
            "Client", self.gateway.url, {"retry": retry, "limits": LIMITS, "observer": Observer()}
        )
        chances = Chances(lambda: 0.5, uuid7)
        buffering = Buffering(linger_s=1.0, in_flight=3, one_per_key=one_per_key)
        self.outbox = Outbox(retry, LIMITS, buffering, chances)
        self.now_s = 0.0
        self.sent: list[tuple[str, int]] = []
        self.ended: dict[int, list[Outcome]] = {}
        self.posted: list[tuple[Load, Post, Request]] = []

    def add(self, key: str) -> None:
        number = len(self.sent)
        self.sent.append((key, number))
        ended = self.ended[number] = []
        event_id = str(number) if self.dedupe else None
        part = self.wire.part(Event(key=key, value=number, id=event_id))
        self.outbox.add(TOPIC, part, part.lane, self.now_s, ended.append)

    def post(self) -> float:
        """Make a request if one is due, else say after how many seconds."""
        taken = self.outbox.take(self.now_s)
        if isinstance(taken, float):
            return taken
        post = taken.delivery.post()
        request = self.wire.request(post)
        assert isinstance(request, Request)
        self.posted.append((taken, post, request))
        return 0.0

    def answer(self, place: int, fault: Fault | None) -> None:
        """Have one of the requests under way answered."""
        load, post, request = self.posted.pop(place % len(self.posted))
        if fault is not None:
            self.gateway.next(fault)
        self._end(self.outbox.answered(load, self._ask(post, request), self.now_s))

    def get_posted(self) -> bool:
        """Wait until a request is under way; False if that will never be."""
        while not self.posted:
            wait_s = self.post()
            if wait_s == math.inf:
                return False
            self.now_s += wait_s
        return True

    def drain(self) -> None:
        """Have everything go and succeed."""
        self.outbox.flush()
        while self.outbox.events:
            assert self.get_posted(), "nothing will ever be posted"
            self.answer(0, None)

    def log(self) -> list[tuple[str, int]]:
        return [(str(one.key), int(str(one.value))) for one in self.gateway.records(TOPIC)]

    def _ask(self, post: Post, request: Request) -> Answer:
        sent = httpx.Request("POST", request.url, headers=request.headers, content=request.content)
        try:
            response = self.gateway.transport.handle_request(sent)
        except httpx.HTTPError as error:
            return self.wire.failure(post, request, error, 0.0)
        return self.wire.answer(post, request, response, 0.0)

    def _end(self, ended: list[tuple[Entry, Outcome]]) -> None:
        for entry, outcome in ended:
            entry.done(outcome)


def some(places: int) -> Callable[[Record, int], bool]:
    """Choose places of a request by the bits of a number."""
    return lambda record, place: bool(places >> place & 1)


FAULTS = st.one_of(
    st.none(),
    st.builds(Lose, st.booleans()),
    st.builds(Refuse, st.sampled_from(["overloaded", "draining", "idempotency_conflict"])),
    st.builds(FailEvents, st.just("kafka_unavailable"), st.builds(some, st.integers(1, 15))),
    st.builds(
        FailEvents,
        st.just("unknown"),
        st.builds(some, st.integers(1, 15)),
        st.just(0),
        st.booleans(),
    ),
)
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.text("aab", min_size=1, max_size=5)),
        st.tuples(st.just("post"), st.just(0)),
        st.tuples(st.just("wait"), st.sampled_from([0.1, 1.0, 40.0])),
        st.tuples(st.just("flush"), st.just(0)),
        st.tuples(st.integers(0, 2), FAULTS),
        st.tuples(st.integers(0, 2), FAULTS),
    ),
    max_size=60,
)
# Behind these a repeat may write an older event behind a newer one, and nobody could have known.
FORGETFUL = st.lists(
    st.one_of(
        st.tuples(st.just("forget"), st.just(0)),
        st.tuples(
            st.integers(0, 2),
            st.builds(
                FailEvents,
                st.sampled_from(["kafka_unavailable", "unknown"]),
                st.builds(some, st.integers(1, 15)),
                is_answered=st.just(False),
            ),
        ),
        st.tuples(st.just("add"), st.text("aab", min_size=1, max_size=5)),
        st.tuples(st.integers(0, 2), FAULTS),
    ),
    max_size=40,
)
ENDLESS = Retry(patience_s=80_000, overtaken="send")
STATES = Retry(patience_s=80_000, overtaken="leave_out")


def played(play: Play, moves: list[tuple[object, object]]) -> Play:
    for move, what in moves:
        if move == "add":
            for key in str(what):
                play.add(key)
        elif move == "post" and len(play.posted) < 3:
            play.post()
        elif move == "wait":
            play.now_s += float(str(what))
        elif move == "flush":
            play.outbox.flush()
        elif move == "forget":
            play.gateway.forget()
        elif isinstance(move, int) and play.get_posted():
            play.answer(move, what)  # type: ignore[arg-type]
    play.drain()
    return play


def check_each_ended_once(play: Play) -> None:
    assert {number: len(ended) for number, ended in play.ended.items() if len(ended) != 1} == {}
    assert play.outbox.events == play.outbox.bytes == 0
    assert play.outbox.is_flushed(play.outbox.flush())


def of_key(pairs: list[tuple[str, int]], key: str) -> list[int]:
    return [number for of, number in pairs if of == key]


@given(MOVES)
@example([("add", "aa"), (0, Lose(is_written=True))])
def test_nothing_is_lost_and_nothing_twice(moves: list[tuple[object, object]]) -> None:
    play = played(Play(ENDLESS), moves)
    check_each_ended_once(play)
    assert Counter(play.log()) == Counter(play.sent)
    assert all(ended[0].succeeded for ended in play.ended.values())


@given(MOVES)
@example(
    [("add", "aabb"), ("wait", 1.0), (0, FailEvents("kafka_unavailable", some(1))), ("add", "a")]
)
def test_with_one_event_of_a_key_in_a_request_its_order_always_holds(
    moves: list[tuple[object, object]],
) -> None:
    play = played(Play(ENDLESS, one_per_key=True), moves)
    check_each_ended_once(play)
    for key in KEYS:
        assert of_key(play.log(), key) == of_key(play.sent, key)


@given(MOVES)
@example([("add", "aaa"), (0, FailEvents("unknown", some(0b101)))])  # 0 must not go with 2
def test_an_older_event_never_lands_behind_a_newer_one_where_it_is_left_out(
    moves: list[tuple[object, object]],
) -> None:
    play = played(Play(STATES), moves)
    check_each_ended_once(play)
    log = play.log()
    for key in KEYS:
        written = of_key(log, key)
        first = list(dict.fromkeys(written))  # some may be there twice, the newest last
        assert first == sorted(first)
        assert written[-1:] == first[-1:]
    for pair in set(play.sent) - set(log):
        (outcome,) = play.ended[pair[1]]
        assert getattr(outcome, "reason", None) == "overtaken"
        assert [one for one in of_key(log, pair[0]) if one > pair[1]]


@given(FORGETFUL)
@example([("add", "aa"), (0, FailEvents("kafka_unavailable", some(0b01), is_answered=False))])
def test_of_states_the_newest_is_the_last_whatever_a_repeat_has_written(
    moves: list[tuple[object, object]],
) -> None:
    play = played(Play(STATES), moves)
    check_each_ended_once(play)
    for key in KEYS:
        assert of_key(play.log(), key)[-1:] == of_key(play.sent, key)[-1:]


@given(FORGETFUL)
@example([("add", "aa"), (0, FailEvents("kafka_unavailable", some(0b01), is_answered=False))])
def test_where_an_id_is_written_once_it_says_that_the_newest_may_not_be_the_last(
    moves: list[tuple[object, object]],
) -> None:
    play = played(Play(STATES, dedupe=True), moves)
    check_each_ended_once(play)
    for key in KEYS:
        sent = of_key(play.sent, key)
        if of_key(play.log(), key)[-1:] != sent[-1:]:
            assert getattr(play.ended[sent[-1]][0], "reason", None) == "out_of_order"


@given(MOVES, st.sampled_from([0.0, 1.3, 30.0]), st.sampled_from(["send", "leave_out"]))
@example([("add", "a"), (0, Lose(is_written=True))], 0.0, "send")
@example([("add", "a"), (0, Lose(is_written=True)), (0, Refuse("overloaded"))], 1.3, "send")
def test_what_is_given_up_is_said_to_be_written_only_if_it_may_be(
    moves: list[tuple[object, object]], patience_s: float, overtaken: Overtaken
) -> None:
    play = played(Play(Retry(patience_s=patience_s, overtaken=overtaken)), moves)
    check_each_ended_once(play)
    times = Counter(play.log())
    for pair in play.sent:
        (outcome,) = play.ended[pair[1]]
        if outcome.succeeded:
            assert times[pair] >= 1
        elif outcome.is_written is False:
            assert times[pair] == 0
        assert times[pair] <= 1 or overtaken == "leave_out"


@pytest.mark.parametrize("given_up", [False, True])
def test_what_waits_is_bounded_and_makes_room(given_up: bool) -> None:
    play = Play(ENDLESS)
    outbox = Outbox(ENDLESS, LIMITS, Buffering(max_events=2), Chances(lambda: 0.0, None))
    part = play.wire.part(1)
    for _ in range(2):
        assert outbox.has_room(part)
        outbox.add(TOPIC, part, None, 0.0, lambda outcome: None)
    assert not outbox.has_room(part)
    if given_up:
        ended = outbox.abandon("why")
        assert [outcome.name for _, outcome in ended] == ["rejected"] * 2
    else:
        play.outbox, play.now_s = outbox, 1.0
        play.post()
        play.answer(0, None)
    assert outbox.has_room(part)
    assert (outbox.events, outbox.bytes) == (0, 0)
