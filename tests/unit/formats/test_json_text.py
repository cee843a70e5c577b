"""Validity, depth, slices and keys of JSON texts."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.formats.json_text import KeyReader, Weight, elements, heaviest, members
from headgate.model.keys import KeyRule, parse_pointer
from headgate.model.outcome import Failure, Reason, Refused
from headgate.model.reply import problem
from headgate.native.chosen import is_too_deep
from support.gateway.json_texts import BAD_UTF8, NO, POINTERS, YES
from support.scale import examples


def read(document: bytes, *pointers: str) -> bytes | Reason | None:
    """The key, or why there is none."""
    try:
        return KeyReader(KeyRule.parse(pointers))(document)
    except Refused as refused:
        return refused.failure.reason


def is_valid(document: bytes, pointers: tuple[str, ...]) -> bool:
    return read(document, *pointers) is not Reason.MALFORMED


READERS = [KeyReader(KeyRule.parse(pointers)) for pointers in POINTERS]


def verdicts(document: bytes) -> set[bool]:
    """Whether it is valid, as every key rule sees it."""
    found = set()
    for reader in READERS:
        try:
            reader(document)
            found.add(True)
        except Refused as refused:
            found.add(refused.failure.reason is not Reason.MALFORMED)
    return found


@pytest.mark.parametrize("document", YES)
def test_what_the_grammar_allows_passes_under_every_key_rule(document: bytes) -> None:
    assert verdicts(document) == {True}


@pytest.mark.parametrize("document", NO)
def test_what_it_does_not_is_malformed_under_every_key_rule(document: bytes) -> None:
    assert verdicts(document) == {False}


@pytest.mark.parametrize("document", YES + NO)
def test_members_and_elements_agree_with_the_reader(document: bytes) -> None:
    lead = document.strip(b" \t\r\n")[:1]
    cut = {b"[": elements, b"{": members}.get(lead)
    if cut is None:
        return
    if verdicts(document) == {True}:
        cut(document)
    else:
        with pytest.raises(Refused):
            cut(document)


def oracle(document: bytes) -> bool:
    """The standard library, strict: no NaN, no limit on digits."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(document.decode(), parse_constant=refuse, parse_int=str)
    except (ValueError, RecursionError):
        return False
    return not document.startswith(b"\xef\xbb\xbf")


snippets = st.sampled_from(
    [
        b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b'"id"', b'"a"', b"1", b"-", b"0", b".",
        b"e", b"null", b"true", b" ", b"\n", b'"\\ud800"', b'"\\udc00"', b"\\u", b'"x"', b"\\\\",
    ]
)  # fmt: skip


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(snippets, max_size=14).map(b"".join))
def test_the_verdict_is_the_standard_library_s_on_soup(document: bytes) -> None:
    assert verdicts(document) == {oracle(document)}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None), max_size=5),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["id", "a", "b", "\ud800", "é", ""]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=examples(200), deadline=None)
@given(values, st.booleans(), st.data())
def test_a_damaged_document_never_passes_under_one_rule_only(
    value: object, ascii_only: bool, data: st.DataObject
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    document = text.encode("utf-8", "replace")
    assert verdicts(document) == {True}
    at = data.draw(st.integers(0, len(document) - 1))
    instead = data.draw(st.sampled_from([b"", b'"', b",", b"\\"]))
    damaged = document[:at] + instead + document[at + 1 :]
    if _is_utf8(damaged):
        assert verdicts(damaged) == {oracle(damaged)}


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("document", BAD_UTF8)
def test_bad_utf8_never_ends_otherwise_than_refused(document: bytes) -> None:
    """`decode` finds it first; but these functions must not fail in another way either."""
    for cut in (elements, members, *READERS):
        with suppress(Refused):
            cut(document)


# ---- slices


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (b"[]", []),
        (b" [ ] ", []),
        (b'[ 1.0 ,1E400,\t"a"\r\n, [ ] ,{ "a" : 1 }]',
         [b"1.0", b"1E400", b'"a"', b"[ ]", b'{ "a" : 1 }']),
        (b'[-0,123456789012345678901234567890,{"a":1,"a":2},"\\u0041\\/"]',
         [b"-0", b"123456789012345678901234567890", b'{"a":1,"a":2}', b'"\\u0041\\/"']),
        (b'[ "\\ud800" , 1.0,{"a": "\\udc00" } ,[ "]" ] ]',
         [b'"\\ud800"', b"1.0", b'{"a": "\\udc00" }', b'[ "]" ]']),
    ],
)  # fmt: skip
def test_elements_are_exact_slices(document: bytes, expected: list[bytes]) -> None:
    assert elements(document) == expected


blank = st.text(" \t\r\n", max_size=3).map(str.encode)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(blank, st.sampled_from(YES), blank), max_size=6))
def test_any_elements_come_back_byte_by_byte(parts: list[tuple[bytes, bytes, bytes]]) -> None:
    array = b"[" + b",".join(b"".join(part) for part in parts) + b"]"
    assert elements(array) == [text.strip(b" \t\r\n") for _, text, _ in parts]
    named = b",".join(
        b'%s"m%d"%s:%s%s' % (before, number, after, text, after)
        for number, (before, text, after) in enumerate(parts)
    )
    assert list(members(b"{" + named + b"}").values()) == elements(array)


def test_of_duplicate_names_the_last_counts() -> None:
    assert members(b'{"a":1,"b":2,"a":[ 3 ]}') == {"a": b"[ 3 ]", "b": b"2"}
    assert members(b'{"a":1,"b":"\\ud800","a":3}') == {"a": b"3", "b": b'"\\ud800"'}


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


texts = st.text('[]{}"\\a', max_size=6)
deep_values = st.recursive(
    texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)


@settings(max_examples=examples(200), deadline=None)
@given(deep_values, st.integers(1, 5))
def test_the_depth_is_the_parsed_document_s(value: object, limit: int) -> None:
    assert is_too_deep(json.dumps(value).encode(), limit) == (depth_of(value) > limit)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
@pytest.mark.parametrize("tail", [b"", b'"\\ud800"'])
def test_a_hundred_thousand_brackets_are_refused_by_everyone(opening: bytes, tail: bytes) -> None:
    document = opening * 100_000 + tail
    assert is_too_deep(document, 128)
    assert verdicts(document) == {False}
    for cut in (elements, members):
        with pytest.raises(Refused):
            cut(document)


# Keys read from documents by JSON Pointers.


MISSING, INVALID = Reason.MISSING_KEY, Reason.INVALID_KEY
SURROGATE = b', "other": "\\ud800"}'  # sends a document the slow way, which must agree


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


# The heaviest JSON Pointers of a document.


def test_of_a_deal_with_many_options_it_is_the_options() -> None:
    deal = {"id": 7, "title": "x" * 100, "options": [{"n": n, "on": True} for n in range(600)]}
    document = json.dumps(deal).encode()
    found = heaviest(document)
    assert [weight.path for weight in found] == ["/options", "/title", "/id"]
    assert found[0].bytes == len(json.dumps(deal["options"]))


def test_a_value_is_opened_while_one_child_holds_half_of_it() -> None:
    document = json.dumps({"a": {"b~/c": ["x" * 1000, "y" * 10]}, "d": 1}).encode()
    assert heaviest(document) == [
        Weight("/a/b~0~1c/0", 1002), Weight("/a/b~0~1c/1", 12), Weight("/d", 1),
    ]  # fmt: skip


def test_a_child_with_just_half_is_opened_and_less_is_not() -> None:
    half = b'{"a":["' + b"x" * 48 + b'","' + b"y" * 44 + b'"]}'
    assert [weight.path for weight in heaviest(half)] == ["/a/0", "/a/1"]
    less = b'{"a":["' + b"x" * 30 + b'","' + b"y" * 30 + b'","' + b"z" * 30 + b'"]}'
    assert [weight.path for weight in heaviest(less)] == ["/a"]


def test_at_most_as_many_as_asked_for() -> None:
    document = json.dumps({f"k{n}": "x" * n for n in range(20)}).encode()
    assert [weight.path for weight in heaviest(document)] == [f"/k{n}" for n in range(19, 14, -1)]
    assert len(heaviest(document, 2)) == 2


def test_what_has_no_parts_or_is_not_json_has_no_paths() -> None:
    for document in (b'"' + b"x" * 1000 + b'"', b"7", b"", b"{", b"[1,", b'{"a":"\xff\\ud800"}x'):
        assert heaviest(document) == []


def test_deep_nesting_ends() -> None:
    assert heaviest(b"[" * 100_000) == []
    deep = b'{"a":' * 500 + b'"' + b"x" * 10_000 + b'"' + b"}" * 500
    assert len(heaviest(deep)) <= 1


def test_names_with_lone_surrogates_can_still_be_answered() -> None:
    document = b'{"\\ud800":"' + b"x" * 100 + b'"}'
    paths = [weight._asdict() for weight in heaviest(document)]
    assert len(paths) == 1
    failure = Failure(Reason.TOO_LARGE, "too large", {"largest_paths": paths})
    assert json.loads(problem(failure, "r").body)["largest_paths"][0]["bytes"] == 102


documents = st.recursive(
    st.integers() | st.text(max_size=20) | st.text("ab", min_size=50, max_size=90),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=15,
)


@settings(deadline=None)
@given(documents)
def test_each_path_leads_to_a_value_of_that_size_and_none_is_inside_another(value: object) -> None:
    document = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    found = heaviest(document)
    assert [weight.bytes for weight in found] == sorted((w.bytes for w in found), reverse=True)
    for weight in found:
        part = document
        for token in parse_pointer(weight.path):
            part = members(part)[token] if part[:1] == b"{" else elements(part)[int(token)]
        assert len(part) == weight.bytes
        KeyReader(KeyRule.parse([]))(part)
    paths = [weight.path + "/" for weight in found]
    assert not any(a != b and a.startswith(b) for a in paths for b in paths)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.sampled_from([*YES, *NO, *BAD_UTF8, b",", b"[", b"]", b'{"a":']), max_size=6))
def test_any_bytes_can_be_weighed(pieces: list[bytes]) -> None:
    for weight in heaviest(b"".join(pieces)):
        assert weight.bytes >= 0
        assert weight.path.encode()
