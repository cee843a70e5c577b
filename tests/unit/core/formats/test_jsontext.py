"""Validity, depth, slices and keys of JSON texts."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.formats.jsontext import KeyReader, elements, members
from headgate.core.keys import KeyRule
from headgate.core.outcome import Reason
from headgate.core.refusal import Refused
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
