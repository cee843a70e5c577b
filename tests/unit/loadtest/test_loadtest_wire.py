"""The generator's HTTP, its counting, and its judgement of the log."""

from collections import Counter
from dataclasses import fields

import orjson
import pytest

from offsets import growth, verdict
from plan import Plan
from wire import Answer, AnswerReader, acknowledged, outcomes, requests, uncertain

ANSWER = b"HTTP/1.1 207 Multi-Status\r\ncontent-LENGTH: 5\r\nX: y\r\n\r\nhello"


def test_answers_are_read_however_they_are_cut() -> None:
    for cut in range(1, len(ANSWER)):
        reader = AnswerReader()
        assert reader.feed(ANSWER[:cut]) is None
        assert reader.feed(ANSWER[cut:]) == Answer(207, b"hello", keep_alive=True)
        assert reader.feed(ANSWER) == Answer(207, b"hello", keep_alive=True)


def test_an_answer_that_closes_says_so() -> None:
    closing = ANSWER.replace(b"X: y", b"Connection: close")
    assert AnswerReader().feed(closing) == Answer(207, b"hello", keep_alive=False)


def test_an_answer_without_length_is_refused() -> None:
    with pytest.raises(ValueError, match="Content-Length"):
        AnswerReader().feed(b"HTTP/1.1 200 OK\r\n\r\n")


def test_requests_carry_the_events_as_they_are() -> None:
    values = [b'{"id":"a"}', b'{"id":"b"}', b'{"id":"c"}']
    ndjson = list(requests(values, "ndjson", 2, "h:1", ["/p"]))
    assert [request.events for request in ndjson] == [2, 1]
    head, _, body = ndjson[0].data.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /p HTTP/1.1\r\nHost: h:1\r\n")
    assert b"Content-Type: application/x-ndjson\r\nContent-Length: 22" in head
    assert body == b'{"id":"a"}\n{"id":"b"}\n'
    (array,) = requests(values, "array", 50, "h:1", ["/p"])
    assert array.data.endswith(b'\r\n\r\n[{"id":"a"},{"id":"b"},{"id":"c"}]')
    assert [one.events for one in requests(values, "single", 50, "h:1", ["/p"])] == [1, 1, 1]


def test_requests_go_to_many_topics_in_turn() -> None:
    plan = Plan("http://h:1/t-{number}/e", events=5, topics=2, topic="log-{number}")
    paths = [one.data.split(b" ")[1] for one in plan.requests()]
    assert paths == [b"/t-0/e", b"/t-1/e", b"/t-0/e", b"/t-1/e", b"/t-0/e"]
    assert plan.topic_names == ["log-0", "log-1"]
    assert Plan("http://h:1/e").topic_names == []


@pytest.mark.parametrize(
    ("status", "body", "ends"),
    [
        (201, b'{"outcome":"published","offset":1}', {"published": 1}),
        (201, b'{"outcome":"published","offset":1,"records":1}', {"published": 1}),
        (201, b'{"outcome":"published","offset":1,"records":0}', {"shared": 1}),
        (200, b'{\n  "partition": 3,\n  "offset": 7\n}', {"published": 3}),
        (200, b'{"summary":{"published":2,"unchanged":1},"outcomes":[{}]}',
         {"published": 2, "unchanged": 1}),
        (200, b'{"outcomes":[],"summary":{"published":3}}', {"published": 3}),
        (503, b'{"reason":"overloaded","status":503}', {"overloaded": 3}),
        (500, b"500 Internal Server Error", {"status 500": 3}),
    ],
)  # fmt: skip
def test_ends_of_events(status: int, body: bytes, ends: dict[str, int]) -> None:
    events = 1 if status == 201 else 3
    assert outcomes(Answer(status, body, keep_alive=True), events) == ends


def test_what_counts_as_acknowledged_and_as_uncertain() -> None:
    ends = Counter({"published": 5, "unchanged": 3, "unknown": 2, "timeout": 1, "overloaded": 9})
    assert acknowledged(ends) == 8
    assert uncertain(ends + Counter({"status 500": 4, "status 400": 7})) == 7


def test_the_log_is_compared_with_the_answers() -> None:
    assert growth({0: 5, 1: 7}, {0: 8, 1: 7}) == 3
    assert verdict(10, 10, 0) == "exact"
    assert verdict(9, 10, 5).startswith("LOST 1")
    assert verdict(12, 10, 2).startswith("within unknown")
    assert verdict(13, 10, 2).startswith("EXTRA 3")


def test_a_plan_survives_the_command_line() -> None:
    plan = Plan(
        "http://h:1/p", "zipf", "unchanged", "array", 7, 9, 2.5, 0.5, 3.0, 11, 4.0, 5, 6, 0.25,
        ("gateway=1,2", "redis=3"), "h:2", "t", "order", 20, 3, "key",
        "p-{number}", 2,
    )  # fmt: skip
    defaults = Plan("")
    assert all(getattr(plan, one.name) != getattr(defaults, one.name) for one in fields(Plan))
    assert Plan.parse(plan.flags()) == plan
    assert plan.watched == {"gateway": [1, 2], "redis": [3]}


def test_producers_post_in_turn() -> None:
    plan = Plan("http://h:1/p", events=5, producer="p-{number}", producers=3)
    heads = [request.data.partition(b"\r\n\r\n")[0] for request in plan.requests()]
    named = [head.partition(b"Headgate-Producer: ")[2].partition(b"\r\n")[0] for head in heads]
    assert named == [b"p-0", b"p-1", b"p-2", b"p-0", b"p-1"]
    assert plan.with_(producer="one").producer_names == ["one"]
    (request,) = plan.with_(producer="", events=1).requests()
    assert b"Headgate-Producer" not in request.data


def test_a_plan_of_n_events_posts_n_events() -> None:
    plan = Plan("http://h:1/p", encoding="ndjson", events=120)
    sent = [request.events for request in plan.requests()]
    assert sent == [50, 50, 20]
    first = next(plan.requests()).data.partition(b"\r\n\r\n")[2]
    assert all(orjson.loads(line)["id"] for line in first.splitlines())
