"""The Python client reads what the gateway writes: every outcome and every reason."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import get_args

import orjson
import pytest

from headgate.config.settings import HttpSettings
from headgate.formats.decode import with_hint
from headgate.formats.json_text import KeyReader
from headgate.http.openapi.document import document
from headgate.model.outcome import TRAITS, Failure, OutcomeName, Reason
from headgate.model.outcome import Outcome as GatewayOutcome
from headgate.model.outcome import Refused as RefusedError
from headgate.model.reply import SUCCESS_STATUS, Reply, problem, reply
from headgate_client import Event, Limits, Outcome, Retry
from headgate_client.core.answer import Answer, Ended, Lost, Refused, read_answer
from headgate_client.core.delivery import Chances, Delivery
from headgate_client.core.encode import dumps, encode_part
from headgate_client.errors import RejectedError, UnknownOutcomeError
from headgate_client.outcomes import Name, Published, Rejected, Unknown
from headgate_client.testing import REASONS
from support.root import ROOT

GOOD = [*SUCCESS_STATUS]
TOPIC = "deals"


def read(answer: Reply, expected: int) -> Answer:
    headers = {name.upper(): value for name, value in answer.headers}
    return read_answer(TOPIC, expected, answer.status, headers, answer.body, 0.0)


def ended(answer: Reply, expected: int) -> list[Outcome]:
    found = read(answer, expected)
    assert isinstance(found, Ended)
    return found.outcomes


def failed(reason: Reason) -> GatewayOutcome:
    name = OutcomeName.UNKNOWN if reason is Reason.UNKNOWN else OutcomeName.REJECTED
    return GatewayOutcome(
        name, key=b"a", event_id="e", failure=Failure(reason, "why", retry_after_s=7)
    )


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("is_batch", [False, True])
def test_every_good_outcome_has_its_type(name: OutcomeName, is_batch: bool) -> None:
    outcome = GatewayOutcome(name, 3, 9, "ключ".encode(), "e", None, 2)
    (found,) = ended(reply(TOPIC, [outcome], is_batch, False, "request"), 1)
    assert type(found).__name__.lower() == name
    assert (found.name, found.key, found.event_id) == (name, "ключ", "e")
    assert found.succeeded
    found.raise_for_outcome()
    if isinstance(found, Published):
        assert (found.partition, found.offset, found.records) == (3, 9, 2)


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("is_batch", [False, True])
def test_every_reason_of_an_event_is_read(reason: Reason, is_batch: bool) -> None:
    (found,) = ended(reply(TOPIC, [failed(reason)], is_batch, False, "request"), 1)
    assert isinstance(found, Unknown if reason is Reason.UNKNOWN else Rejected)
    assert (found.reason, found.status) == (reason, TRAITS[reason].status)
    assert found.retryable is TRAITS[reason].retryable
    hint = "; send the event with key=..." if reason is Reason.MISSING_KEY else ""
    assert (found.key, found.event_id, found.detail) == ("a", "e", f"why{hint}")
    with pytest.raises((RejectedError, UnknownOutcomeError), match=reason):
        found.raise_for_outcome()


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_of_a_request_is_read(reason: Reason) -> None:
    found = read(problem(Failure(reason, "why", retry_after_s=7), "request"), 2)
    assert found.retry_after_s == 7.0
    if reason is Reason.UNKNOWN:
        assert isinstance(found, Lost)
        return
    assert isinstance(found, Refused)
    assert (found.reason, found.status) == (reason, TRAITS[reason].status)
    assert found.retryable is TRAITS[reason].retryable


TOO_LARGE = {
    "size_bytes": 2_000_000,
    "limit_bytes": 1_000_000,
    "limit": "max.message.bytes",
    "largest_paths": [{"path": "/photos/0", "bytes": 1_900_000}],
}
VIOLATIONS = {"violations": [{"path": "/total", "schema_path": "/type", "detail": "a text"}]}


@pytest.mark.parametrize("form", ["alone", "batch", "request"])
@pytest.mark.parametrize(
    ("reason", "figures"),
    [(Reason.TOO_LARGE, TOO_LARGE), (Reason.SCHEMA_VIOLATION, VIOLATIONS), (Reason.INTERNAL, None)],
)
def test_a_rejected_event_has_the_figures_of_the_answer(
    form: str, reason: Reason, figures: dict[str, object] | None
) -> None:
    failure = Failure(reason, "why", figures)
    outcome = GatewayOutcome(OutcomeName.REJECTED, key=b"a", event_id="e", failure=failure)
    answer = problem(failure, "request-1")
    if form != "request":
        answer = reply(TOPIC, [outcome], form == "batch", False, "request-1")
    part = encode_part(Event(1, key="a"), dumps, None)
    delivery = Delivery(
        TOPIC, [part], Retry(patience_s=0), Limits(), Chances(lambda: 1, None), end_s=0
    )
    delivery.post()
    delivery.answered(read(answer.with_headers((("X-Request-Id", "request-1"),)), 1), 0.0)
    (found,) = delivery.outcomes
    assert isinstance(found, Rejected)
    figures = figures or {}
    assert (found.size_bytes, found.limit_bytes) == (
        figures.get("size_bytes"), figures.get("limit_bytes"),
    )  # fmt: skip
    assert [asdict(path) for path in found.largest_paths] == figures.get("largest_paths", [])
    assert [asdict(place) for place in found.violations] == figures.get("violations", [])
    assert found.request_id == "request-1"


def test_a_refused_request_of_one_event_has_the_key_of_the_response() -> None:
    body = {"reason": "event_too_large", "detail": "why", "retryable": False, "key": "12"}
    answer = read_answer(TOPIC, 1, 413, {}, json.dumps(body).encode(), 0.0)
    part = encode_part(Event({"order_id": 12}), dumps, None)
    delivery = Delivery(
        TOPIC, [part], Retry(patience_s=0), Limits(), Chances(lambda: 1, None), end_s=0
    )
    delivery.post()
    delivery.answered(answer, 0.0)
    (found,) = delivery.outcomes
    assert found is not None
    assert found.key == "12"


@pytest.mark.parametrize("status", [400, 503])
def test_an_outcome_without_an_answer_of_a_gateway_has_the_id_that_there_is(status: int) -> None:
    answer = read_answer(TOPIC, 1, status, {"x-request-id": "r"}, b"<html>", 0.0)
    part = encode_part(Event(1, key="a"), dumps, None)
    delivery = Delivery(
        TOPIC, [part], Retry(patience_s=0), Limits(), Chances(lambda: 1, None), end_s=0
    )
    delivery.post()
    delivery.answered(answer, 0.0)
    (found,) = delivery.outcomes
    assert isinstance(found, Rejected if status == 400 else Unknown)
    assert found.request_id == "r"


@pytest.mark.parametrize("body", [b'{"total": 5}', b"5", b"5 "])
def test_the_detail_of_a_missing_key_names_the_argument_and_no_header(body: bytes) -> None:
    headers = {b"content-type": b"application/json"}
    with pytest.raises(RefusedError) as refused:
        KeyReader.parse(["/order_id"])(body)
    failure = with_hint(refused.value.failure, headers, body)
    outcome = GatewayOutcome(OutcomeName.REJECTED, failure=failure)
    (found,) = ended(reply(TOPIC, [outcome], True, False, "request"), 1)
    assert isinstance(found, Rejected)
    why = "no key at '/order_id': it is absent, null or empty"
    assert found.detail == f"{why}; send the event with key=..."


@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize(
    "fields", [{"outcome": "parked"}, {"outcome": "parked", "reason": "full"}, {}]
)
def test_an_outcome_of_a_newer_gateway_may_be_written(
    is_batch: bool, fields: dict[str, object]
) -> None:
    end = {"partition": 1, "offset": 7, "key": "a", "event_id": "e", "retryable": True, **fields}
    if not (is_batch or fields):
        return  # a response without an outcome is no answer of a gateway
    body = {"outcomes": [end, end]} if is_batch else end
    parts = [encode_part(Event(n, key="a"), dumps, None) for n in range(2 if is_batch else 1)]
    delivery = Delivery(TOPIC, parts, Retry(), Limits(), Chances(lambda: 0, lambda: "k"), 100.0)
    delivery.post()
    answer = read_answer(TOPIC, len(parts), 200, {}, json.dumps(body).encode(), 0.0)
    step = delivery.answered(answer, 0.0)
    assert step.wait_s is None  # without Redis, a repeat would be a second record
    for found in delivery.outcomes:
        assert isinstance(found, Unknown)
        assert (found.reason, found.key, found.event_id) == ("bad_answer", "a", "e")
        assert "does not know the outcome" in found.detail


def test_a_key_that_is_no_text_is_read_as_bytes() -> None:
    outcome = GatewayOutcome(OutcomeName.PUBLISHED, 0, 1, b"\xff", "e", None, 1)
    (found,) = ended(reply(TOPIC, [outcome], True, False, "request"), 1)
    assert found.key == b"\xff"


def test_a_batch_keeps_its_order() -> None:
    outcomes = [GatewayOutcome(OutcomeName.PUBLISHED, 0, n, b"k", None, None, 1) for n in range(3)]
    found = ended(reply(TOPIC, [*outcomes, failed(Reason.TOO_LARGE)], True, False, "r"), 4)
    assert [getattr(one, "offset", None) for one in found] == [0, 1, 2, None]


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (502, b"<html>Bad gateway</html>", Lost, None),
        (200, b"{}", Lost, None),
        (200, b'{"outcomes": []}', Lost, None),
        (200, b'{"outcomes": [1, 2]}', Lost, None),
        (200, b"\xff", Lost, None),
        (404, b"not here", Refused, False),
        (429, b"slow down", Refused, True),
        (308, b"", Refused, False),
    ],
)
def test_an_answer_of_something_else_is_not_taken_for_one_of_a_gateway(
    status: int, body: bytes, kind: type[Answer], retryable: bool | None
) -> None:
    found = read_answer(TOPIC, 2, status, {"Retry-After": "4"}, body, 0.0)
    assert isinstance(found, kind)
    if isinstance(found, Refused):
        assert (found.reason, found.retryable) == ("bad_answer", retryable)
        assert found.retry_after_s == 4.0


def test_an_answer_says_when_no_key_was_looked_up() -> None:
    answer = reply(
        TOPIC, [GatewayOutcome(OutcomeName.PUBLISHED, 0, 0, b"k")], False, False, "request"
    )
    found = read(answer.with_headers((("Idempotency-Bypassed", "true"),)), 1)
    assert isinstance(found, Ended)
    assert found.bypassed


# Reasons that a sender of events never gets: of the management port, of pages and of other paths.
NOT_OF_EVENTS = {
    "group_active", "method_not_allowed", "needs_native_api", "not_covered", "not_found",
    "replay_finished", "unknown_partition",
}  # fmt: skip


def test_the_clients_know_every_reason() -> None:
    real = {str(reason): (TRAITS[reason].status, TRAITS[reason].retryable) for reason in Reason}
    assert {name: traits for name, traits in real.items() if name not in NOT_OF_EVENTS} == REASONS
    assert real.keys() >= NOT_OF_EVENTS
    javascript = (ROOT / "clients/js/src/testing/reasons.js").read_text()
    table = re.findall(r"^  (\w+): \[(\d+), (true|false)\],$", javascript, re.MULTILINE)
    assert {name: (int(status), again == "true") for name, status, again in table} == REASONS


def test_responses_documents_and_clients_have_the_same_outcomes() -> None:
    """A held event may end `superseded`, after its response: no response has it."""
    succeeded = [str(name) for name in SUCCESS_STATUS]
    api = orjson.loads(document(HttpSettings()))
    schemas = api["components"]["schemas"]
    assert schemas["Outcome"]["properties"]["outcome"]["enum"] == succeeded
    page = (ROOT / "docs/publish/answers.md").read_text()
    assert re.findall(r"^\| `(\w+)` \| 20[012] \|", page, re.MULTILINE) == succeeded
    assert [*get_args(Name)] == [*succeeded, "rejected", "unknown"]
    javascript = (ROOT / "clients/js/src/outcomes.js").read_text()
    assert re.findall(r'name = .*"(\w+)"', javascript) == [*succeeded, "rejected", "unknown"]
