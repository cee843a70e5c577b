"""Keys read from documents by JSON Pointers."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.formats.jsontext import KeyReader
from headgate.core.keys import KeyRule
from headgate.core.outcome import Reason
from headgate.core.refusal import Refused
from support.scale import examples

MISSING, INVALID = Reason.MISSING_KEY, Reason.INVALID_KEY
SURROGATE = b', "other": "\\ud800"}'  # sends a document the slow way, which must agree


def read(document: bytes, *pointers: str) -> bytes | Reason | None:
    """The key, or why there is none."""
    try:
        return KeyReader(KeyRule.parse(pointers))(document)
    except Refused as refused:
        return refused.failure.reason


@pytest.mark.parametrize("pointer", ["/id", "/a/id", "/a/0", "/a/1/id"])
@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'"x"', b"x"),
        ('"ключ é"'.encode(), "ключ é".encode()),
        (b'"\\u0041\\n\\"\\\\\\/"', b'A\n"\\/'),
        (b'"\\ud83d\\ude00"', "\U0001f600".encode()),
        (b'" "', b" "),
        (b'"\\u0000"', b"\0"),
        (b'"a:b%"', b"a:b%"),
        (b"7", b"7"),
        (b"-7", b"-7"),
        (b"-0", b"-0"),
        (b"9" * 60, b"9" * 60),
        (b"1" + b"0" * 5000, b"1" + b"0" * 5000),
        (b"true", b"true"),
        (b"false", b"false"),
        (b"1.0", INVALID),
        (b"1e5", INVALID),
        (b"1E400", INVALID),
        (b"-0.0", INVALID),
        (b"{}", INVALID),
        (b'{"id":1}', INVALID),
        (b"[]", INVALID),
        (b'["x"]', INVALID),
        (b'"\\ud800"', INVALID),
        (b'"x\\udc00y"', INVALID),
        (b"null", MISSING),
        (b'""', MISSING),
    ],
)
def test_what_a_value_gives_as_a_key(
    pointer: str, slow: bool, text: bytes, expected: bytes | Reason
) -> None:
    inner = {
        "/id": b'{"id": %s ',
        "/a/id": b'{"a": {"id": %s } ',
        "/a/0": b'{"a": [ %s , 2] ',
        "/a/1/id": b'{"a": [0, {"x": 0, "id" : %s }] ',
    }[pointer] % text
    assert read(inner + (SURROGATE if slow else b"}"), pointer) == expected


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize(
    ("document", "pointer", "expected"),
    [
        (b'{"b":1}', "/id", MISSING),
        (b"{}", "/id", MISSING),
        (b'{"a":"x"}', "/a/id", MISSING),
        (b'{"a":7}', "/a/id", MISSING),
        (b'{"a":[1]}', "/a/1", MISSING),
        (b'{"a":[1]}', "/a/-", MISSING),
        (b'{"a":[1,2]}', "/a/01", MISSING),  # RFC 6901: no leading zeros
        (b'{"a":[1,2]}', "/a/\u00b2", MISSING),  # a digit for str.isdigit, not for RFC 6901
        (b'{"a":[1,2]}', "/a/\u0661", MISSING),
        (b'{"a":[1,2]}', "/a/" + "9" * 5000, MISSING),
        (b'{"a":{"0":"x"}}', "/a/0", b"x"),
        (b'{"":"x"}', "/", b"x"),
        (b'{"a":{"":{"":"x"}}}', "/a//", b"x"),
        (b'{"a/b":"x"}', "/a~1b", b"x"),
        (b'{"~1":"x"}', "/~01", b"x"),
        (b'{"m~n":"x"}', "/m~0n", b"x"),
        (b'{"a\\"b":"x"}', '/a"b', b"x"),
        (b'{"a\\\\b":"x"}', "/a\\b", b"x"),
        (b'{"\\u0001":"x"}', "/\x01", b"x"),
        (b'{"a":{"q\\"":"x"}}', '/a/q"', b"x"),
        (b'{"\\u0069d":"x"}', "/id", b"x"),
        ('{"ключ":"x"}'.encode(), "/ключ", b"x"),
        (b'{"id":1,"id":2}', "/id", b"2"),
        (b'{"id":"x","id":null}', "/id", MISSING),
        (b'{"a":{"id":1},"a":{"id":2}}', "/a/id", b"2"),
        (b'{"a":{"id":1,"id":2}}', "/a/id", b"2"),
        (b'{"a":{"id":1},"a":{}}', "/a/id", MISSING),
        (b'{"f0":"x","f1":"y"}', "/f1", b"y"),
    ],
)
def test_where_a_pointer_leads(
    slow: bool, document: bytes, pointer: str, expected: bytes | Reason
) -> None:
    if slow:
        document = b'{"other": "\\ud800"' + b", " * (document != b"{}") + document[1:]
    assert read(document, pointer) == expected


@pytest.mark.parametrize(
    ("document", "pointer", "expected"),
    [
        (b'["x",5]', "/1", b"5"),
        (b'[ "x" , "y" ]', "/1", b"y"),
        (b'[{"id":"x"}]', "/0/id", b"x"),
        (b'["\\ud800",5]', "/1", b"5"),
        (b'["\\ud800",5]', "/01", MISSING),
        (b'["x"]', "/1", MISSING),
        (b'["x"]', "/id", MISSING),
        (b'"x"', "/id", MISSING),
        (b"7", "/0", MISSING),
        (b' "x"\n', "", b"x"),
        (b" 7 ", "", b"7"),
        (b" 12345678901234567890123 ", "", b"12345678901234567890123"),
        (b"true", "", b"true"),
        (b"null", "", MISSING),
        (b'""', "", MISSING),
        (b"1.5", "", INVALID),
        (b"{}", "", INVALID),
        (b' {"a":1}', "", INVALID),
        (b"[]", "", INVALID),
        (b'"\\ud800"', "", INVALID),
    ],
)
def test_documents_that_are_no_objects(
    document: bytes, pointer: str, expected: bytes | Reason
) -> None:
    assert read(document, pointer) == expected


def test_without_pointers_there_is_no_key() -> None:
    assert read(b'{"id":1}') is None
    assert read(b'["\\ud800"]') is None


def test_several_pointers_are_joined_and_each_must_be_there() -> None:
    document = b'{"a":"x:y","b":{"c":5},"d":"100%"}'
    assert read(document, "/a", "/b/c", "/d") == b"x%3Ay:5:100%25"
    assert read(document, "/d", "/a") == b"100%25:x%3Ay"
    assert read(document, "/a", "/a") == b"x%3Ay:x%3Ay"
    assert read(document, "/a", "/b/missing") is MISSING
    assert read(document, "/b", "/a") is INVALID
    assert read(document[:-1] + SURROGATE, "/a", "/b/c") == b"x%3Ay:5"


def test_a_refusal_names_the_pointer_and_what_is_there() -> None:
    with pytest.raises(Refused) as caught:
        KeyReader(KeyRule.parse(["/a~1b/~0"]))(b'{"a/b":{"~":1.5}}')
    assert "'/a~1b/~0'" in caught.value.failure.detail
    assert "fraction" in caught.value.failure.detail


keys = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@settings(max_examples=examples(150), deadline=None)
@given(keys | st.integers(), st.lists(keys, min_size=1, max_size=4), st.booleans(), st.booleans())
def test_any_string_or_integer_is_found_anywhere(
    key: str | int, path: list[str], ascii_only: bool, slow: bool
) -> None:
    value: object = key
    for name in reversed(path):
        value = {"before": 1, name: value}
    if slow:
        value = {"\ud800": "\ud800", **value}  # type: ignore[dict-item]
    pointer = "".join("/" + one.replace("~", "~0").replace("/", "~1") for one in path)
    document = json.dumps(value, ensure_ascii=ascii_only or slow).encode()
    assert read(document, pointer) == str(key).encode()
