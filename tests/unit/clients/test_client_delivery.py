"""The rules of docs/publish/retries.md in the Python client: what goes again, as what, and when."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate_client import Event, Limits, Outcome, Retry
from headgate_client.core.answer import Answer, Ended, Lost, Refused, retry_after
from headgate_client.core.delivery import Chances, Delivery, Post
from headgate_client.core.encode import dumps, encode_part
from headgate_client.errors import InvalidOptionError
from headgate_client.outcomes import Duplicate, Published, Rejected, Unknown

TOPIC = "deals"
OVERLOADED = Refused("overloaded", "full", retryable=True, status=503, retry_after_s=2.0)

ANSWERS = st.sampled_from(
    [
        OVERLOADED,
        Lost("refused", False, "unreachable"),
        Lost("reset"),
        Refused("draining", "ends", retryable=True, status=503, retry_after_s=30.0),
    ]
)


class Try:
    """A delivery, and what it posted."""

    def __init__(
        self,
        keys: str = "aba",
        retry: Retry | None = None,
        limits: Limits | None = None,
        own_key: str | None = None,
        share: Callable[[], float] = lambda: 1.0,
    ) -> None:
        numbers = itertools.count(1)
        self.parts = [
            encode_part(Event(key=key, value=n), dumps, None) for n, key in enumerate(keys)
        ]
        self.retry = retry or Retry()
        self.delivery = Delivery(
            TOPIC,
            self.parts,
            self.retry,
            limits or Limits(),
            Chances(share, lambda: f"key-{next(numbers)}"),
            self.retry.patience_s,
            own_key,
        )
        self.posts: list[Post] = []
        self.now_s = 0.0

    def answer(self, answer: Answer) -> float | None:
        """Post, and have this answered; return the wait."""
        self.posts.append(self.delivery.post())
        wait_s = self.delivery.answered(answer, self.now_s).wait_s
        self.now_s += wait_s or 0.0
        return wait_s

    @property
    def ends(self) -> list[str]:
        return [getattr(one, "reason", one.name) for one in self.delivery.outcomes if one]

    def key(self, at: int) -> str:
        return dict(self.posts[at].headers)["Idempotency-Key"]


def good(key: str = "a", offset: int = 1) -> Outcome:
    return Published(topic=TOPIC, key=key, partition=0, offset=offset)


def done(offset: int = 1) -> Outcome:
    return Duplicate(topic=TOPIC, key="a", partition=0, offset=offset)


def bad(reason: str = "kafka_unavailable", key: str = "a", retryable: bool = True) -> Outcome:
    return Rejected(topic=TOPIC, reason=reason, detail="why", retryable=retryable, key=key)


def unknown(key: str = "a") -> Outcome:
    return Unknown(topic=TOPIC, reason="unknown", detail="why", key=key)


def test_only_what_failed_and_may_succeed_goes_again_under_a_new_key() -> None:
    tried = Try("abac")
    answer = Ended([bad(), bad("too_large", "b", False), bad(), good("c")], retry_after_s=1.0)
    assert tried.answer(answer) == pytest.approx(1.4)
    assert tried.answer(Ended([good(), good()])) is None
    assert tried.ends == ["published", "too_large", "published", "published"]
    assert tried.posts[1].content == b'{"events":[%b,%b]}' % (
        tried.parts[0].text,
        tried.parts[2].text,
    )
    assert (tried.key(0), tried.key(1)) == ("key-1", "key-2")


@pytest.mark.parametrize(
    "answer",
    [
        Lost("reset"),
        Lost("timeout", status=502),
        OVERLOADED,
        Refused("idempotency_conflict", "runs", retryable=True, status=409),
        Ended([good(), unknown("b"), bad()]),
    ],
)
def test_what_may_be_written_goes_again_as_it_was(answer: Answer) -> None:
    tried = Try()
    assert tried.answer(answer)
    assert tried.answer(Ended([good(), good("b"), good()])) is None
    assert tried.posts[0].content == tried.posts[1].content
    assert tried.key(0) == tried.key(1)
    assert [post.attempt for post in tried.posts] == [1, 2]
    assert tried.ends == ["published"] * 3


def test_the_first_good_end_of_an_event_counts() -> None:
    tried = Try("ab")
    first = Published(topic=TOPIC, key="a", partition=3, offset=7)
    tried.answer(Ended([first, unknown("b")]))
    tried.answer(Ended([good(), good("b")]))
    assert tried.delivery.outcomes[0] is first


def test_waits_are_at_least_retry_after_and_double_with_a_random_share() -> None:
    tried = Try("a", Retry(first_wait_s=0.2, longest_wait_s=5.0, patience_s=1000))
    waits = [tried.answer(OVERLOADED) for _ in range(8)]
    assert waits == pytest.approx([2.4, 2.8, 3.6, 5.2, 7.0, 7.0, 7.0, 7.0])
    assert Retry().wait_s(3, 2.0, 0.0) == 2.0
    assert Retry().wait_s(10_000, 0.0, 1.0) == 30.0


@pytest.mark.parametrize(
    ("answers", "ends"),
    [
        ([OVERLOADED], ["overloaded"]),
        ([Lost("refused", False, "unreachable")], ["unreachable"]),
        ([Lost("reset")], ["no_answer"]),
        ([Lost("late", reason="unknown", status=504)], ["unknown"]),
        ([Ended([bad()])], ["kafka_unavailable"]),
        ([Ended([unknown()])], ["unknown"]),
    ],
)
def test_it_gives_up_with_what_is_known(answers: list[Answer], ends: list[str]) -> None:
    tried = Try("a", Retry(patience_s=0))
    assert [tried.answer(answer) for answer in answers] == [None]
    assert tried.ends == ends


def test_it_gives_up_when_retry_after_is_later_than_its_patience() -> None:
    tried = Try("a", Retry(patience_s=60))
    assert tried.answer(Refused("draining", "x", True, 503, retry_after_s=61.0)) is None
    assert tried.now_s == 0.0


def test_the_last_attempt_is_at_the_end_of_the_patience() -> None:
    tried = Try("a", Retry(patience_s=10, first_wait_s=3))
    waits = [tried.answer(Lost("refused", False, "unreachable")) for _ in range(3)]
    assert waits == [6.0, 4.0, None]
    assert tried.ends == ["unreachable"]


@given(st.lists(st.tuples(ANSWERS, st.floats(0, 1)), min_size=1), st.floats(0, 300))
def test_patience_is_used_up_to_its_end_and_not_longer(
    answers: list[tuple[Answer, float]], patience_s: float
) -> None:
    """The client gives up at the end, or earlier if Retry-After is later than the end."""
    shares = itertools.cycle([share for _, share in answers])
    tried = Try("ab", Retry(patience_s=patience_s), share=lambda: next(shares))
    for answer, _ in itertools.cycle(answers):
        before_s = tried.now_s
        assert before_s <= patience_s + 1e-6
        if tried.answer(answer) is None:
            break
        tried.now_s += 0.01  # the duration of a request
        if tried.now_s > patience_s:
            tried.now_s = patience_s
    assert before_s + answer.retry_after_s > patience_s - 0.01


def test_an_event_that_may_be_written_is_not_called_unreachable() -> None:
    tried = Try("a", Retry(patience_s=0.1))
    tried.answer(Lost("reset"))
    assert tried.answer(Lost("refused", False, "unreachable")) is None
    (outcome,) = tried.delivery.outcomes
    assert isinstance(outcome, Unknown)
    assert (outcome.reason, outcome.detail) == ("no_answer", "refused")


def test_a_port_that_never_answers_in_http_may_be_another_one() -> None:
    """The port of Kafka closes the connection."""
    hint = "closed; this may not be the port of a Headgate gateway"
    for first, detail in ((Lost("closed"), hint), (Lost("bad", status=502), "closed")):
        tried = Try("a", Retry(patience_s=0.1))
        tried.answer(first)
        assert tried.answer(Lost("closed")) is None
        (outcome,) = tried.delivery.outcomes
        assert isinstance(outcome, Unknown)
        assert (outcome.reason, outcome.detail) == ("no_answer", detail)


def test_parts_that_had_no_turn_are_not_sent_when_time_is_over() -> None:
    tried = Try("abc", Retry(patience_s=0.1), Limits(max_events=2))
    assert tried.answer(OVERLOADED) is None
    assert tried.ends == ["overloaded", "overloaded", "not_sent"]


def test_a_refusal_behind_a_lost_answer_is_no_proof_that_nothing_is_written() -> None:
    tried = Try("a")
    tried.answer(Lost("reset"))
    assert tried.answer(Refused("forbidden", "no", retryable=False, status=403)) is None
    (outcome,) = tried.delivery.outcomes
    assert isinstance(outcome, Unknown)
    assert outcome.reason == "forbidden"


@pytest.mark.parametrize("reason", ["malformed", "schema_violation", "missing_key"])
def test_what_lies_in_the_event_had_failed_the_first_time_too(reason: str) -> None:
    tried = Try("a")
    tried.answer(Lost("reset"))
    assert tried.answer(Ended([bad(reason, retryable=False)])) is None
    assert isinstance(tried.delivery.outcomes[0], Rejected)


def test_what_is_unknown_is_left_alone_where_a_repeat_does_harm() -> None:
    retry = Retry(repeat_unknown=False)
    tried = Try("ab", retry)
    assert tried.answer(Ended([unknown(), bad(key="b")]))
    assert tried.answer(Ended([good("b")])) is None
    assert tried.ends == ["unknown", "published"]
    lost = Try("ab", retry)
    assert lost.answer(Lost("reset")) is None
    assert lost.ends == ["no_answer"] * 2
    refused = Try("a", retry)
    assert refused.answer(Lost("no route", was_sent=False))


@pytest.mark.parametrize("failed", [bad(), unknown()])
def test_an_older_state_is_left_out_when_a_newer_one_got_through(failed: Outcome) -> None:
    tried = Try("aba", Retry(overtaken="leave_out"))
    assert tried.answer(Ended([failed, bad(key="b"), good()]))
    assert tried.answer(Ended([good("b")])) is None
    assert tried.ends == ["overtaken", "published", "published"]
    outcome = tried.delivery.outcomes[0]
    assert outcome is not None
    assert outcome.name == failed.name


@pytest.mark.parametrize(
    "repeat",
    [
        [good(offset=5), done(4)],  # it failed in the attempt without an answer, the newer did not
        [unknown(), done(4)],
        [done(5), done(4)],  # two attempts were not answered
        [good(offset=5), bad()],  # the gateway has forgotten the request
    ],
)
def test_a_newer_state_goes_again_when_a_repeat_wrote_an_older_one_behind_it(
    repeat: list[Outcome],
) -> None:
    tried = Try("aab", Retry(overtaken="leave_out"))
    assert tried.answer(Ended([good(offset=3), good(offset=4), unknown("b")]))
    assert tried.answer(Ended([*repeat, good("b")]))
    assert tried.answer(Ended([good(offset=6)])) is None
    assert tried.posts[2].content == b'{"events":[%b]}' % tried.parts[1].text
    assert tried.key(1) != tried.key(2)
    assert tried.ends == ["published"] * 3


@pytest.mark.parametrize(
    "repeat", [[done(), done(2)], [good(), good()], [bad(), good()], [bad(), done()]]
)
def test_a_newer_state_stays_where_nothing_can_be_behind_it(repeat: list[Outcome]) -> None:
    tried = Try("aa", Retry(overtaken="leave_out"))
    assert tried.answer(Lost("reset"))
    assert tried.answer(Ended(repeat)) is None
    assert len(tried.posts) == 2


def test_a_state_that_may_have_an_older_one_behind_it_is_not_called_written() -> None:
    tried = Try("aa", Retry(overtaken="leave_out", patience_s=0.4))
    assert tried.answer(Lost("reset"))
    assert tried.answer(Ended([good(offset=5), done(4)])) is None
    assert tried.ends == ["published", "out_of_order"]
    assert [one.name for one in tried.delivery.outcomes if one] == ["published", "unknown"]


def test_an_older_state_does_not_come_back_under_a_key_of_the_callers() -> None:
    tried = Try("aba", Retry(overtaken="leave_out"), own_key="mine")
    assert tried.answer(Ended([bad(), bad(key="b"), good()]))
    assert tried.answer(Ended([good("b")])) is None
    assert (tried.key(0), tried.key(1)) == ("mine", "key-1")
    assert tried.ends == ["overtaken", "published", "published"]


def test_many_events_go_in_parts_one_after_another() -> None:
    tried = Try("abcde", limits=Limits(max_events=2))
    assert tried.answer(Ended([good("a"), bad(key="b")]))
    assert tried.answer(Ended([good("b"), good("c")])) == 0.0  # what failed goes before what is new
    assert tried.answer(Ended([good("d"), good("e")])) is None
    assert [post.events for post in tried.posts] == [2, 2, 2]
    assert [tried.key(at) for at in range(3)] == ["key-1", "key-2", "key-3"]


def test_a_request_has_no_more_bytes_than_it_may() -> None:
    tried = Try("abcd", limits=Limits(max_bytes=50))  # of 21 each
    assert tried.answer(Ended([good("a"), good("b")])) == 0.0
    alone = Try("ab", limits=Limits(max_bytes=1))
    assert alone.answer(Ended([good("a")])) == 0.0


@pytest.mark.parametrize("reason", ["too_large", "too_many_events"])
def test_a_request_that_is_too_large_as_a_whole_is_halved(reason: str) -> None:
    tried = Try("abc")
    refused = Refused(reason, "no", retryable=False, status=413)
    assert tried.answer(refused) == 0.0
    assert tried.answer(Ended([good("a"), good("b")])) == 0.0
    assert tried.answer(refused) is None
    assert tried.ends == ["published", "published", reason]


def test_a_request_with_a_key_of_the_callers_is_always_repeated_as_a_whole() -> None:
    tried = Try("ab", own_key="mine", limits=Limits(max_events=1))
    assert tried.answer(Ended([good("a"), bad(key="b")]))
    assert tried.answer(Ended([good("a"), good("b")])) is None
    assert tried.posts[0].content == tried.posts[1].content
    assert (tried.key(0), tried.key(1)) == ("mine", "mine")


def test_a_producer_that_is_closed_says_what_may_be_written() -> None:
    posted = Try("ab", limits=Limits(max_events=1))
    posted.delivery.post()
    posted.delivery.give_up(is_posted=True)
    assert posted.ends == ["no_answer", "not_sent"]
    waiting = Try("ab", limits=Limits(max_events=1))
    waiting.answer(OVERLOADED)
    waiting.delivery.give_up(is_posted=False)
    assert waiting.ends == ["overloaded", "not_sent"]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, 0.0),
        ("3", 3.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
        ("soon", 0.0),
    ],
)
def test_retry_after_has_seconds_or_a_date(value: str | None, seconds: float) -> None:
    assert retry_after(value, now_s=10.0) == seconds


@pytest.mark.parametrize("patience_s", [-1.0, 23 * 3600 + 1])
def test_patience_ends_before_the_gateway_forgets_a_key(patience_s: float) -> None:
    with pytest.raises(InvalidOptionError, match="patience_s"):
        Retry(patience_s=patience_s)
