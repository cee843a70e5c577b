"""Schemas: what is no usable one, which events fit, and what is said of those that do not."""

from __future__ import annotations

import hashlib

import orjson
import pytest

from headgate.model.outcome import Reason
from headgate.model.schema import BadSchemaError, Schema

ORDER = b"""{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "required": ["id"],
  "properties": {
    "id": {"type": "string", "minLength": 1},
    "a/b~c": {"type": "array", "items": {"$ref": "#/$defs/price"}}
  },
  "$defs": {"price": {"type": "integer", "minimum": 0}}
}"""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"{", "not JSON"),
        (b'"x"', "neither an object nor a boolean"),
        (b'{"type":12}', "at /type"),
        (b'{"properties":{"a/b":{"pattern":"("}}}', "/properties/a~1b/pattern"),
        (b'{"$ref":"#/$defs/nowhere"}', "/$defs/nowhere"),
        (b'{"$ref":"http://127.0.0.1:1/x.json"}', "Retrieval is disabled"),
        (b'{"$ref":"file:///etc/hostname"}', "Retrieval is disabled"),
        (b'{"properties":{"a":{"$ref":"other.json"}}}', "other.json"),
        (b'{"$defs":{"a":{"$ref":"https://example.com/unused"}}}', "Retrieval is disabled"),
        (b'{"$schema":"http://json-schema.org/draft-07/schema#"}', "draft-07"),
        (b'{"$schema":7}', "7, not https://json-schema.org/draft/2020-12"),
    ],
)  # fmt: skip
def test_what_is_no_usable_schema(text: bytes, why: str) -> None:
    with pytest.raises(BadSchemaError) as caught:
        Schema(text)
    assert why in str(caught.value)


def test_an_event_that_fits() -> None:
    schema = Schema(ORDER)
    assert schema.check(b'{"id":"1","a/b~c":[1,2],"more":null}') is None
    assert schema.version == hashlib.sha256(ORDER).hexdigest()[:16].encode()


def test_each_violation_has_its_place_in_the_event_and_in_the_schema() -> None:
    failure = Schema(ORDER).check(b'{"a/b~c":[1,-2,"x"]}')
    assert failure is not None
    assert failure.reason is Reason.SCHEMA_VIOLATION
    assert failure.figures is not None
    found = {each["path"]: each for each in failure.figures["violations"]}
    assert set(found) == {"", "/a~1b~0c/1", "/a~1b~0c/2"}
    assert found[""]["detail"] == '"id" is a required property'
    assert found[""]["schema_path"] == "/required"
    assert found["/a~1b~0c/1"]["schema_path"].endswith("/minimum")
    assert orjson.dumps(failure.figures)


def test_what_is_said_is_bounded() -> None:
    document = b'{"id":"","a/b~c":[' + b",".join([b'"%s"' % (b"x" * 5000)] * 100) + b"]}"
    failure = Schema(ORDER).check(document)
    assert failure is not None
    assert failure.figures is not None
    assert len(failure.figures["violations"]) == 20
    assert all(len(each["detail"]) <= 203 for each in failure.figures["violations"])


@pytest.mark.parametrize(
    ("document", "fits"),
    [
        (b'{"id":"\\ud800"}', True),  # a lone surrogate is text
        (b'{"id":"1","n":1e400}', True),
        (b'{"id":"1","n":123456789012345678901234567890}', True),
        (b'{"id":1e400}', False),
        (b'{"id":7,"s":"\\ud800"}', False),
        (b'{"id":"1","n":' + b"9" * 5000 + b"}", False),  # more digits than Python takes
        (b"[" * 100_000 + b"]" * 100_000, False),
    ],
)
def test_what_only_few_parsers_take_is_judged_and_never_an_error(
    document: bytes, fits: bool
) -> None:
    failure = Schema(ORDER).check(document)
    assert (failure is None) is fits
    assert failure is None or orjson.dumps((failure.detail, failure.figures))


def test_a_surrogate_in_a_violation_can_be_answered() -> None:
    failure = Schema(b'{"const":1}').check(b'"\\ud800"')
    assert failure is not None
    assert orjson.dumps((failure.detail, failure.figures))
