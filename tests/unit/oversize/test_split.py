"""A document cut along an array, and put together again: byte for byte, or not at all."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.oversize import SplitRule
from headgate.oversize.chunks import NotSplit, rebuild, split

RULE = SplitRule("/options", "/id")
blanks = st.text(" \t\r\n", max_size=3)
keys = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=12, unique=True)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@st.composite
def documents(draw):
    """A document with an array of elements, each with blanks of its own around it."""
    ascii_ = draw(st.booleans())
    parts = []
    for key in draw(keys.filter(lambda found: "7" not in found)):
        element = {"a": draw(anything), "id": key, "b": draw(anything)}
        text = json.dumps(element, ensure_ascii=ascii_)
        parts.append(draw(blanks) + text + draw(blanks))
    array = "[" + ",".join(parts) + "]"
    before, after = json.dumps(draw(anything), ensure_ascii=ascii_), json.dumps(draw(anything))
    space = draw(blanks)
    return f'{space}{{"x": {before},{space}"options":{space}{array}, "y" :{after}}}{space}'.encode(
        "utf-8", "surrogatepass"
    )


def is_text(document: bytes) -> bool:
    try:
        document.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(documents().filter(is_text))
def test_the_document_comes_back_byte_for_byte(document):
    try:
        cut = split(document, RULE, b"7")
    except NotSplit:
        assert document.count(b"[") > 1  # the array's text occurs twice
        return
    assert [json.loads(each.value) for each in cut.elements] == json.loads(document)["options"]
    assert all(each.value in document for each in cut.elements)
    values = {each.key: each.value for each in cut.elements}
    assert rebuild(cut.manifest, values | {b"stale": b"{}"}) == document
    about = json.loads(cut.manifest)
    assert about["keys"] == [each["id"] for each in json.loads(document)["options"]]
    assert about["document"] == json.loads(document) | {"options": []}


@given(documents().filter(is_text), st.data())
def test_an_element_of_another_version_is_noticed(document, data):
    try:
        cut = split(document, RULE, b"7")
    except NotSplit:
        return
    values = {each.key: each.value for each in cut.elements}
    key = data.draw(st.sampled_from(sorted(values)))
    with pytest.raises(ValueError, match="another version"):
        rebuild(cut.manifest, values | {key: b'{"id":"other"}'})
    del values[key]
    with pytest.raises(KeyError):
        rebuild(cut.manifest, values)


def deal(options: int, indent: int | None = None) -> bytes:
    return json.dumps(
        {"id": 7, "options": [{"id": f"o{n}", "on": True} for n in range(options)]}, indent=indent
    ).encode()


def test_the_manifest_of_a_pretty_document_stays_small():
    for indent in (None, 2):
        cut = split(deal(600, indent), RULE, b"7")
        assert len(json.loads(cut.manifest)["gaps"]) == 3
        assert len(cut.manifest) < len(deal(600, indent)) / 2
        values = {each.key: each.value for each in cut.elements}
        assert rebuild(cut.manifest, values) == deal(600, indent)


def test_nested_arrays_are_found_and_their_order_is_kept():
    document = b'{"deal":{"id":7,"options":[{"id":2},{"id":1},{"id":3}]}}'
    cut = split(document, SplitRule("/deal/options", "/id"), b"7")
    assert [each.key for each in cut.elements] == [b"2", b"1", b"3"]
    assert json.loads(cut.manifest)["document"] == {"deal": {"id": 7, "options": []}}
    places = [document.index(each.value) for each in cut.elements]
    assert all(one < other for one, other in pairwise(places))


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b'{"id":7}', "no array"),
        (b'{"id":7,"options":{"id":1}}', "no array"),
        (b'[{"id":1}]', "no array"),
        (b'"text"', "no array"),
        (b'{"id":7,"options":[]}', "0 elements"),
        (b'{"id":7,"options":[{"id":1},{"on":true}]}', "no key"),
        (b'{"id":7,"options":[1,2]}', "no key"),
        (b'{"id":7,"options":[{"id":1.5}]}', "no key"),
        (b'{"id":7,"options":[{"id":1},{"id":1}]}', "one key"),
        (b'{"id":7,"options":[{"id":1},{"id":"1"}]}', "one key"),
        (b'{"id":7,"options":[{"id":7}]}', "one key"),
        (b'{"id":7,"old":[{"id":1}],"options":[{"id":1}]}', "twice"),
    ],
)
def test_what_does_not_come_apart(document, why):
    with pytest.raises(NotSplit, match=why):
        split(document, RULE, b"7")


@pytest.mark.parametrize("text", [b"{}", b"[]", b"nonsense", b"7", b'{"document":1,"keys":[1]}'])
def test_invalid_manifests_are_not_rebuilt(text):
    with pytest.raises(ValueError):  # noqa: PT011
        rebuild(text, {})
