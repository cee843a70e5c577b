"""Answers on the wire, against the files in tests/golden."""

import base64
import json
import os
import re
from importlib import import_module

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.model.outcome import TRAITS, Failure, Outcome, OutcomeName, Reason
from headgate.model.reply import Reply, problem, reply
from headgate.native import chosen, plain_answers
from headgate.native.chosen import Shown
from support.root import ROOT

GOLDEN = ROOT / "tests" / "golden"

PUBLISHED = Outcome(OutcomeName.PUBLISHED, 4, 1729, b"2342565", "0190-1", None, 1)
FOLLOWED = Outcome(OutcomeName.PUBLISHED, 4, 1729, b"2342565", "0190-2", None, 0)
UNCHANGED = Outcome(OutcomeName.UNCHANGED, 4, 1729, b"2342565", "0190-3")
UNNAMED = Outcome(OutcomeName.UNCHANGED, 4, 1729, b"2342565")
KEYLESS = Outcome(OutcomeName.PUBLISHED, 0, 7, None, "0190-4", None, 1)
BINARY_KEY = Outcome(OutcomeName.PUBLISHED, 0, 7, b"\xff\x00", "0190-5", None, 1)
MALFORMED = Outcome(OutcomeName.REJECTED, failure=Failure(Reason.MALFORMED, "trailing characters"))
TOO_LARGE = Outcome(
    OutcomeName.REJECTED, key=b"7", event_id="0190-6",
    failure=Failure(
        Reason.TOO_LARGE, "11 bytes are more than the limit of 10 bytes (max_bytes)",
        {"size_bytes": 11, "limit_bytes": 10, "limit": "max_bytes",
         "largest_paths": [{"path": "/options", "bytes": 9}]},
    ),
)  # fmt: skip
UNAVAILABLE = Outcome(
    OutcomeName.REJECTED, key=b"7", event_id="0190-7",
    failure=Failure(Reason.KAFKA_UNAVAILABLE, "no broker answers", retry_after_s=2),
)  # fmt: skip
UNKNOWN = Outcome(
    OutcomeName.UNKNOWN, key=b"7", event_id="0190-8",
    failure=Failure(Reason.UNKNOWN, "the event may yet arrive", retry_after_s=5),
)  # fmt: skip


def one(outcome: Outcome) -> Reply:
    return reply("deals", [outcome], is_batch=False, minimal=False, request_id="req-1")


def many(*outcomes: Outcome, minimal: bool = False) -> Reply:
    return reply("deals", outcomes, is_batch=True, minimal=minimal, request_id="req-1")


QUOTA = Failure(
    Reason.QUOTA_EXCEEDED, "used up",
    {"quota": "bytes", "limit_per_s": 10_000_000.0, "remaining": 0}, retry_after_s=3,
)  # fmt: skip

ANSWERS = {
    "single-published": one(PUBLISHED),
    "single-published-keyless": one(KEYLESS),
    "single-published-binary-key": one(BINARY_KEY),
    "single-unchanged": one(UNCHANGED),
    "single-unchanged-without-id": one(UNNAMED),
    "single-too-large": one(TOO_LARGE),
    "single-malformed": one(MALFORMED),
    "single-unavailable": one(UNAVAILABLE),
    "single-unknown": one(UNKNOWN),
    "batch-empty": many(),
    "batch-all-well": many(PUBLISHED, FOLLOWED, UNCHANGED),
    "batch-some-failed": many(PUBLISHED, MALFORMED, UNCHANGED, TOO_LARGE),
    "batch-some-failed-minimal": many(PUBLISHED, MALFORMED, UNCHANGED, TOO_LARGE, minimal=True),
    "batch-all-well-minimal": many(PUBLISHED, UNCHANGED, minimal=True),
    "batch-all-failed": many(MALFORMED, UNAVAILABLE, UNKNOWN),
    "problem-quota-exceeded": problem(QUOTA, "req-1"),
    "problem-draining": problem(
        Failure(Reason.DRAINING, "shutting down", retry_after_s=1), "req-1"
    ),
    "problem-unauthenticated": problem(Failure(Reason.UNAUTHENTICATED, "no token"), "req-1"),
}


def on_the_wire(answer: Reply) -> str:
    """Status, headers and body, as the golden files have them."""
    headers = [("content-type", answer.content_type), *answer.headers]
    lines = [str(answer.status), *(f"{name}: {value}" for name, value in headers), ""]
    return "\n".join([*lines, answer.body.decode(), ""])


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_stay_as_they_are(name: str) -> None:
    assert on_the_wire(ANSWERS[name]) == (GOLDEN / f"{name}.txt").read_text()


def test_no_golden_file_is_forgotten() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(ANSWERS)


@pytest.mark.parametrize("reason", list(Reason))
def test_a_problem_document_has_what_rfc_9457_and_the_contract_name(reason: Reason) -> None:
    figures = QUOTA.figures if reason is Reason.QUOTA_EXCEEDED else {"size_bytes": 5}
    answer = problem(Failure(reason, "why", figures), "req-9")
    document = json.loads(answer.body)
    assert answer.content_type == "application/problem+json"
    assert answer.status == document["status"] == TRAITS[reason].status
    assert document["type"] == f"/problems/{reason.value}"
    assert document["title"] == TRAITS[reason].title
    assert (document["detail"], document["instance"]) == ("why", "req-9")
    assert (document["reason"], document["retryable"]) == (reason.value, TRAITS[reason].retryable)


@pytest.mark.parametrize("reason", list(Reason))
def test_a_batch_in_which_all_failed_has_the_reasons_own_status(reason: Reason) -> None:
    failed = Outcome(OutcomeName.REJECTED, failure=Failure(reason, "why"))
    assert many(failed, failed).status == TRAITS[reason].status
    assert many(failed, MALFORMED).status == max(400, TRAITS[reason].status)
    assert many(failed, PUBLISHED).status == 207


def test_a_batch_answers_in_order_and_the_longest_wait_counts() -> None:
    answer = many(UNAVAILABLE, PUBLISHED, UNKNOWN)
    assert answer.headers == (("Retry-After", "5"),)
    outcomes = json.loads(answer.body)["outcomes"]
    assert [entry["event_id"] for entry in outcomes] == ["0190-7", "0190-1", "0190-8"]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
WAYS: dict[str, Shown] = {"python": plain_answers.shown}
if os.environ.get("EXPECT_COMPILED") == "1":
    WAYS["c"] = import_module("headgate.native._answers").shown
UNPLAIN = re.compile(rb'[^ -~]|["\\]')
INTEGERS = st.integers(-(2**63), 2**63 - 1)
PLAIN = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=600)


def test_the_build_has_the_way_that_it_is_for() -> None:
    assert chosen.shown is list(WAYS.values())[-1]


@pytest.mark.parametrize("way", WAYS)
@given(
    topic=PLAIN | TEXTS,
    key=st.none() | st.binary() | PLAIN.map(str.encode) | TEXTS.map(str.encode),
    event_id=st.none() | PLAIN | TEXTS,
    numbers=st.tuples(INTEGERS, INTEGERS, INTEGERS),
)
@example("deals", b"", "", (-(2**63), 2**63 - 1, 0))
@example("deals", b" ~", " ~", (0, 0, 0))
@example("deals", b"\x1f", "id", (0, 0, 0))
@example("deals", b"\x7f", "id", (0, 0, 0))
@example("deals", b"key", 'quote "', (0, 0, 0))
@example("deals", b"back\\slash", None, (0, 0, 0))
@example("deals", b"\xff\x00", "\u2028", (0, 0, 0))
@example("Zoë", None, "\U0001f600", (0, 0, 0))
def test_an_event_is_the_json_of_its_members(
    way: str, topic: str, key: bytes | None, event_id: str | None, numbers: tuple[int, int, int]
) -> None:
    partition, offset, records = numbers
    members: dict[str, object] = {"topic": topic, "partition": partition, "offset": offset}
    if key is not None:
        try:
            members["key"] = key.decode()
        except UnicodeDecodeError:
            members["key_base64"] = base64.b64encode(key).decode()
    members |= {"event_id": event_id, "records": records}
    head = orjson.dumps({"topic": topic})[:-1].decode()
    shown = WAYS[way](head, partition, offset, key, event_id, records)
    # The one in C leaves to the other what is not plain; the head is taken as it is.
    rest = (key or b"") + (event_id or "").encode()
    is_left = way == "c" and (not head.isascii() or UNPLAIN.search(rest) is not None)
    if is_left:
        assert shown is None
        return
    assert shown is not None
    assert shown[len(head) :].isprintable(), "control characters are written as escapes"
    assert json.loads(shown) == members
    if all(str(one).isprintable() for one in members.values()):
        assert shown == orjson.dumps(members).decode()


@given(topic=TEXTS, key=st.binary() | TEXTS.map(str.encode), event_id=TEXTS, minimal=st.booleans())
@example(topic="a.b_c-1", key=b'quote " and \\', event_id="\x7f\x00\u2028\U0001f600", minimal=False)
def test_any_text_is_shown_as_it_is(topic: str, key: bytes, event_id: str, minimal: bool) -> None:
    ended = Outcome(OutcomeName.PUBLISHED, 4, 1729, key, event_id, None, 2, 'by "ref"')
    held = Outcome(OutcomeName.HELD, key=key, event_id=event_id)
    failed = Outcome(OutcomeName.REJECTED, key=key, event_id=event_id, failure=UNAVAILABLE.failure)
    answer = reply(topic, [ended, held, failed], True, minimal, "r")
    shown = json.loads(answer.body)["outcomes"]
    assert len(shown) == (1 if minimal else 3)
    for one_shown in shown:
        found = one_shown.get("key")
        assert (
            base64.b64decode(one_shown["key_base64"]) if found is None else found.encode()
        ) == key
        assert one_shown["event_id"] == event_id
    if not minimal:
        assert [one_shown.get("topic") for one_shown in shown] == [topic, topic, None]
        assert shown[0] | {"partition": 4, "offset": 1729, "records": 2} == shown[0]
        assert shown[0]["oversize"] == 'by "ref"'
        assert json.loads(reply(topic, [ended], False, minimal, "r").body) == shown[0]


@pytest.mark.parametrize(
    ("per_second", "quota"), [(10_000_000.0, 10_000_000), (0.5, 1), (2.5, 2), (1234567.0, 1234567)]
)
def test_quota_headers_are_integers_as_the_draft_wants(per_second: float, quota: int) -> None:
    figures = {"quota": "events", "limit_per_s": per_second, "remaining": 0}
    answer = problem(Failure(Reason.QUOTA_EXCEEDED, "used up", figures, retry_after_s=3), "r")
    assert dict(answer.headers) == {
        "Retry-After": "3", "RateLimit": '"events";r=0;t=3',
        "RateLimit-Policy": f'"events";q={quota};w=1',
    }  # fmt: skip
