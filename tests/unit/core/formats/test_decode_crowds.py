"""Bodies with very many events: refused before they are cut, and never refused wrongly."""

import json

import pytest

from headgate.core.formats.decode import decode
from headgate.core.outcome import Reason
from headgate.core.refusal import Refused

JSON = {b"content-type": b"application/json"}
NDJSON = {b"content-type": b"application/x-ndjson"}
CLOUDEVENTS = {b"content-type": b"application/cloudevents-batch+json"}
ENVELOPE = {b"content-type": b"application/vnd.headgate.batch+json"}
MANY = 300_000


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"1\n" * MANY, NDJSON),
        (b"1\n" * 11, NDJSON),
        (b"\n \n1" * 11, NDJSON),
        (b"[" + b"1," * MANY + b"1]", JSON),
        (b" [ " + b"1 , " * MANY, JSON),
        (b"[" + b"{}," * MANY + b"{}]", CLOUDEVENTS),
        (b'{"events":[' + b"{}," * MANY + b"{}]}", ENVELOPE),
    ],
)
def test_more_than_the_limit(body: bytes, headers: dict[bytes, bytes]) -> None:
    with pytest.raises(Refused) as caught:
        decode(body, headers, limit=10)
    assert caught.value.failure.reason is Reason.TOO_MANY_EVENTS
    assert caught.value.failure.figures == {"limit": 10}


def test_many_commas_are_not_many_events() -> None:
    elements = [b'[{"n":[%s]},"a,b"]' % b",".join([b"1"] * (MANY // 10))] * 10
    body = b" [" + b" ,\n".join(elements) + b"] "
    assert decode(body, JSON, limit=10).events == elements
    with pytest.raises(Refused) as caught:
        decode(body.replace(b"] ", b",1] "), JSON, limit=10)
    assert caught.value.failure.reason is Reason.TOO_MANY_EVENTS


@pytest.mark.parametrize("body", [b"[1" + b"," * MANY, b"[" + b",[" * MANY])
def test_crowds_that_are_no_json(body: bytes) -> None:
    with pytest.raises(Refused) as caught:
        decode(body, JSON, limit=10)
    assert caught.value.failure.reason is Reason.MALFORMED


def test_blank_lines_are_no_events() -> None:
    lines = [json.dumps({"id": n}).encode() for n in range(10)]
    body = b"\n" * MANY + b"\r\n \n\t".join(lines) + b"\n" * MANY
    assert [bytes(each).strip() for each in decode(body, NDJSON, limit=10).events] == lines
    few = decode(b"\r\n \n\t".join(lines), NDJSON, limit=100).events
    assert decode(body, NDJSON, limit=10).events == few, "the same slices on both ways"
