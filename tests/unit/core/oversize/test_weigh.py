"""The heaviest JSON Pointers of a document."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.formats.jsontext import KeyReader, elements, members
from headgate.core.keys import KeyRule, parse_pointer
from headgate.core.outcome import Failure, Reason
from headgate.core.oversize.limits import Weight, heaviest
from headgate.core.reply import problem
from support.gateway.json_texts import BAD_UTF8, NO, YES
from support.scale import examples


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


values = st.recursive(
    st.integers() | st.text(max_size=20) | st.text("ab", min_size=50, max_size=90),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=15,
)


@settings(deadline=None)
@given(values)
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
