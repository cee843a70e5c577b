"""Digests of canonical forms as a scanner makes them, in C and by the ordinary way: the same cases.

The one in C leaves what is unusual to the other, and those cases say so.
"""

from __future__ import annotations

import json
import os
import random
from hashlib import blake2b
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.formats.decode import scanner_for
from headgate.model.content import INLINE_BYTES, Comparison
from headgate.model.route import Scanner
from support.gateway.fakes import policy, topic_state
from support.gateway.plain_scanner import JSON, PlainScanner
from support.gateway.random_json import members, number
from support.scale import examples

IS_COMPILED = os.environ.get("EXPECT_COMPILED") == "1"
BOTH = pytest.mark.parametrize("way", ["python", "c"] if IS_COMPILED else ["python"])
C_ALONE = pytest.mark.skipif(not IS_COMPILED, reason="about C, which is not compiled")
RULES = b"fingerprint"
PREFIX = b"canon" + len(JSON).to_bytes(4, "big") + JSON


def made(way: str, *ignore: str, max_bytes: int = 4_000_000) -> Scanner:
    comparison = Comparison(RULES, ignore, max_bytes)
    how = policy(key=("/id",))
    if way == "python":
        return PlainScanner(how, topic_state(), 512, comparison)
    scanner = scanner_for(how, topic_state(), 512, comparison)
    assert scanner is not None
    return scanner


def digests(scanner: Scanner, *documents: bytes) -> list[bytes | None]:
    """Of each document, None where it has none or is left; each way to cut gives the same."""
    batch = scanner.elements(b"[" + b" ,".join(documents) + b"]", len(documents))
    assert batch is not None
    found = batch[3]
    assert found is not None
    if not any(b"\n" in one for one in documents):
        lines = scanner.lines(b"\n".join(documents), len(documents))
        assert lines is not None
        assert lines[3] == found
    for document, digest in zip(documents, found, strict=True):
        one = scanner.one(document)
        assert one is not None
        assert one[3] == [digest]
    return found


def digested(form: str) -> bytes:
    return blake2b(PREFIX + form.encode(), digest_size=16, key=RULES).digest()


# ---- What has a form

FORMS = [
    ('{"id":1}', '{"id":1}'),
    (' {\t"id" : 1 } ', '{"id":1}'),
    ('{"id":1,"b":2,"a":{}}', '{"a":{},"b":2,"id":1}'),
    ('{"id":1,"a":[]}', '{"a":[],"id":1}'),
    ('{"id":1,"a":[ 1 , [ ] ,{ } , "x"]}', '{"a":[1,[],{},"x"],"id":1}'),
    ('{"id":1,"b":{"d":1,"c":[{"z":1,"y":2}]},"a":0}',
     '{"a":0,"b":{"c":[{"y":2,"z":1}],"d":1},"id":1}'),
    ('{"id":1,"aa":1,"a":2,"":3,"A":4}', '{"":3,"A":4,"a":2,"aa":1,"id":1}'),
    ('{"\U0001f600":1,"\uffff":2,"é":3,"z":4,"id":5}',
     '{"id":5,"z":4,"é":3,"\uffff":2,"\U0001f600":1}'),
    ('{"id":1,"a b":1,"a":1,"a!":1}', '{"a":1,"a b":1,"a!":1,"id":1}'),
    ('{"id":1,"a":[true,false,null]}', '{"a":[true,false,null],"id":1}'),
    ('{"id":1,"a":"/\x7f\u2028"}', '{"a":"/\x7f\u2028","id":1}'),
    ('{"id":1,"a":"\\"\\\\\\b\\f\\n\\r\\t"}', '{"a":"\\"\\\\\\b\\f\\n\\r\\t","id":1}'),
    ('{"id":1,"a":["\\\\","\\""]}', '{"a":["\\\\","\\""],"id":1}'),
    ('{"id":1,"a":[123456789012345678,-123456789012345678,0]}',
     '{"a":[123456789012345678,-123456789012345678,0],"id":1}'),
    ('{"id":1,"a":[1.50,1.00,-0.0,0.000,12.3400]}', '{"a":[1.5,1.0,-0.0,0.0,12.34],"id":1}'),
    ('{"id":1,"a":[0.0001,0.00012345678901234,123456789012.345]}',
     '{"a":[0.0001,0.00012345678901234,123456789012.345],"id":1}'),
]  # fmt: skip
# The one in C leaves them.
LEFT = [
    ('{"id":1,"a":"\\u0000"}', '{"a":"\\u0000","id":1}'),
    ('{"id":1,"a":"\\/"}', '{"a":"/","id":1}'),
    ('{"id":1,"a":{"\\t":1,"a":2,"\\"":3}}', '{"a":{"\\t":1,"\\"":3,"a":2},"id":1}'),
    ('{"id":1,"a":[{"\\u0062":1}]}', '{"a":[{"b":1}],"id":1}'),
    ('{"id":1,"a":1e5}', '{"a":100000.0,"id":1}'), ('{"id":1,"a":1E-3}', '{"a":0.001,"id":1}'),
    ('{"id":1,"a":1.5e0}', '{"a":1.5,"id":1}'), ('{"id":1,"a":0.00001}', '{"a":0.00001,"id":1}'),
    ('{"id":1,"a":0.3333333333333333}', '{"a":0.3333333333333333,"id":1}'),
]  # fmt: skip
# Nobody makes one.
FORMLESS = [
    '{"id":1,"a":-0}', '{"id":1,"a":1234567890123456789}', '{"id":1,"a":0.1234567890123450}',
    '{"id":1,"a":12345678901234567.0}', '{"id":1,"a":1e201}', '{"id":1,"a":1,"a":1}',
    '{"id":1,"a":[{"b":1,"c":2,"b":1}]}', '{"id":1,"":1,"":1}',
    '{"id":1,"a":' + "[" * 300 + "]" * 300 + "}",
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(("text", "form", "is_left"), [
    *((*one, False) for one in FORMS), *((*one, True) for one in LEFT),
])  # fmt: skip
def test_digests_are_of_the_form(way: str, text: str, form: str, is_left: bool) -> None:
    expected = None if is_left and way == "c" else digested(form)
    assert digests(made(way), text.encode()) == [expected]


@BOTH
@pytest.mark.parametrize("text", FORMLESS)
def test_what_has_no_form_has_no_digest(way: str, text: str) -> None:
    assert digests(made(way), text.encode()) == [None]


@BOTH
def test_one_unusual_document_of_a_batch_alone_is_left(way: str) -> None:
    plain = [b'{"id":%d,"a":1}' % number for number in range(130)]
    for place in (0, 1, 64, 129):
        batch = [*plain]
        batch[place] = b'{"id":1,"a":-0}'
        found = digests(made(way), *batch)
        assert [at for at, digest in enumerate(found) if digest is None] == [place]
        assert found[-2] == digested('{"a":1,"id":128}')
    assert digests(made(way), *[b'{"id":1,"a":-0}'] * 70) == [None] * 70


@BOTH
def test_any_order_of_names(way: str) -> None:
    names = ["", "a", "aa", "b", "é"]
    form = '{"":0,"a":0,"aa":0,"b":0,"id":1,"é":0}'
    scanner = made(way)
    for order in permutations([*names, "id"]):
        text = "{" + ", ".join(f'"{one}":{int(one == "id")}' for one in order) + "}"
        assert digests(scanner, text.encode()) == [digested(form)]


@BOTH
@pytest.mark.parametrize("seed", range(3))
def test_many_members_in_any_order(way: str, seed: int) -> None:
    rng = random.Random(seed)
    values: dict[str, object] = {f"{'long' * rng.randrange(9)}{n}": n for n in range(255)}
    values["id"] = 1
    names = rng.sample([*values], k=len(values))
    text = json.dumps({name: values[name] for name in names}).encode()
    form = json.dumps(values, sort_keys=True, separators=(",", ":"))
    assert digests(made(way), text) == [digested(form)]


# ---- What is ignored

IGNORED = [
    ('{"id":1,"at":{"x":[1,"y"]},"z":0}', ("/at",), '{"id":1,"z":0}'),
    ('{"at":1,"id":1}', ("/at",), '{"id":1}'), ('{"id":1,"at":1}', ("/at",), '{"id":1}'),
    ('{"id":1}', ("/at", "/a/b/c", "/"), '{"id":1}'), ('{"id":1,"":2}', ("/",), '{"id":1}'),
    ('{"id":1,"at":1}', ("/id", "/at"), "{}"),
    ('{"a":{"c":3,"b":1},"id":1}', ("/a/b",), '{"a":{"c":3},"id":1}'),
    ('{"a":{"b":1},"id":1,"b":2}', ("/a/b",), '{"a":{},"b":2,"id":1}'),
    ('{"a":{"b":1,"c":2},"id":1}', ("/a/b", "/a"), '{"id":1}'),
    ('{"a":{"b":1,"c":2},"id":1}', ("/a", "/a/b", "/a"), '{"id":1}'),
    ('{"a":"b","id":1}', ("/a/b",), '{"a":"b","id":1}'),
    ('{"x":[{"at":1}],"y":{"at":2},"id":1}', ("/at",), '{"id":1,"x":[{"at":1}],"y":{"at":2}}'),
    ('{"a":{"a":{"a":1,"b":2}},"id":1}', ("/a/a/a",), '{"a":{"a":{"b":2}},"id":1}'),
    ('{"ключ":{"é/~":1,"b":2},"id":1}', ("/ключ/é~1~0",), '{"id":1,"ключ":{"b":2}}'),
    ('{"a":{"0":1,"1":2},"id":1}', ("/a/0",), '{"a":{"1":2},"id":1}'),
]  # fmt: skip
IGNORED_LEFT = [
    ('{"a":[1,2],"id":1}', ("/a/0",), '{"a":[null,2],"id":1}'),
    ('{"a":[{"b":1}],"id":1}', ("/a/b",), '{"a":[{"b":1}],"id":1}'),
    ('{"x":{"\\u0061":1},"id":1}', ("/x/a",), '{"id":1,"x":{}}'),
    ('{"a":"\\u000a","id":1}', ("/a",), '{"id":1}'),
]  # fmt: skip
IGNORED_FORMLESS = [
    ('{"a":1,"id":1,"a":2}', ("/a",)), ('{"a":{"b":1,"b":1},"id":1}', ("/a",)),
    ('{"a":{"b":1},"id":1,"a":{"b":1}}', ("/a/b",)), ('{"a":-0,"id":1}', ("/a",)),
    ('{"a":{"b":1,"c":0,"b":1},"id":1}', ("/a/b",)),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(("text", "ignore", "form", "is_left"), [
    *((*one, False) for one in IGNORED), *((*one, True) for one in IGNORED_LEFT),
])  # fmt: skip
def test_ignored_members_do_not_change_the_digest(
    way: str, text: str, ignore: tuple[str, ...], form: str, is_left: bool
) -> None:
    expected = None if is_left and way == "c" else digested(form)
    assert digests(made(way, *ignore), text.encode()) == [expected]


@BOTH
@pytest.mark.parametrize(("text", "ignore"), IGNORED_FORMLESS)
def test_what_is_ignored_can_take_the_form_away(
    way: str, text: str, ignore: tuple[str, ...]
) -> None:
    assert digests(made(way, *ignore), text.encode()) == [None]


@BOTH
def test_equal_but_for_order_blanks_and_what_is_ignored(way: str) -> None:
    scanner = made(way, "/updated_at", "/audit/by")
    one, other = (
        '{"id":7,"title":"é","updated_at":1,"audit":{"by":"a","n":1},"price":19.50}',
        '{ "audit" : {"n":1 , "by":[{"x":2}]}, "price":19.5,"title" : "é", "id":7}',
    )
    found = digests(scanner, one.encode(), other.encode())
    assert found[0] == found[1] is not None


# ---- Limits


@BOTH
@pytest.mark.parametrize("limit", [100, INLINE_BYTES, INLINE_BYTES + 1])
def test_long_documents_are_left(way: str, limit: int) -> None:
    scanner, longest = made(way, max_bytes=limit), min(limit, INLINE_BYTES)
    frame = '{"id":1,"x":"%s"}'
    for length, has_form in ((longest, True), (longest + 1, False)):
        text = frame % ("x" * (length - len(frame) + 2))
        form = digested(text) if has_form else None
        assert digests(scanner, b'{"id":1}', text.encode()) == [digested('{"id":1}'), form]


@BOTH
@pytest.mark.parametrize("depth", [1, 30, 31, 32, 200])
def test_deep_documents_are_left(way: str, depth: int) -> None:
    is_left = way == "c" and depth > 31
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        text = '{"a":' + opening * depth + "1" + closing * depth + ',"id":1}'
        assert digests(made(way), text.encode()) == [None if is_left else digested(text)]


@BOTH
@pytest.mark.parametrize("count", [1, 127, 128, 129, 255, 256, 300])
def test_very_many_members_are_left(way: str, count: int) -> None:
    inner = ",".join(f'"{number:03}":{number}' for number in range(count))
    flat, nested = "{" + inner + ',"id":1}', '{"a":{' + inner + '},"id":1}'
    assert digests(made(way), flat.encode()) == [
        None if way == "c" and count > 255 else digested(flat)
    ]
    assert digests(made(way), nested.encode()) == [
        None if way == "c" and count > 255 else digested(nested)
    ]


@C_ALONE
@pytest.mark.parametrize(("ignore", "is_read"), [
    ((), True), (("/" + "/".join("a" * 16),), True), (("/" + "/".join("a" * 17),), False),
    (tuple(f"/{number}" for number in range(16)), True),
    (tuple(f"/{number}" for number in range(17)), False),
    (("/a", *(f"/a/{number}" for number in range(17))), True), (("",), False),
])  # fmt: skip
def test_pointers_that_are_too_many(ignore: tuple[str, ...], is_read: bool) -> None:
    """Then the scanner reads bodies, and somebody else makes the digests."""
    found = made("c", *ignore).one(b'{"id":1}')
    assert found is not None
    assert (found[3] is not None) is is_read


# ---- What the one in C accepts, the ordinary way makes, too


def agree(ignore: tuple[str, ...], documents: list[bytes]) -> int:
    """How many have a digest; fails where one is not that of the form."""
    scanner, comparison = made("c" if IS_COMPILED else "python", *ignore), Comparison
    given = comparison(RULES, ignore, 4_000_000)
    accepted = 0
    for document in documents:
        found = scanner.one(document)
        if found is not None and found[3] is not None and found[3][0] is not None:
            assert (found[3][0], None) == given.digest(document, JSON), (ignore, document)
            accepted += 1
    return accepted


POINTERS = ["/a", "/at", "/by", "/a/b", "/a/a", "/a/b/n", "/", "//", "/é/a", "/n", "/updated_at"]


@pytest.mark.parametrize("seed", range(8))
def test_random_documents(seed: int) -> None:
    rng = random.Random(seed)
    accepted = 0
    for _ in range(400):
        ignore = tuple(rng.sample(POINTERS, rng.randrange(4)))
        texts = [members(rng, rng.randrange(1, 5), rng.randrange(7), ['"id":1']) for _ in range(3)]
        accepted += agree(ignore, [one.encode() for one in texts])
    assert accepted > 400


def test_random_numbers() -> None:
    rng = random.Random(1)
    texts = [b'{"id":1,"x":%b}' % number(rng).encode() for _ in range(20_000)]
    assert agree((), texts) > 5_000


@settings(max_examples=examples(300), deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 20))
def test_numbers_as_others_write_them(double: float, digits: int) -> None:
    spelled = [repr(double), f"{double:.{digits}f}", f"{double:.{digits}g}", f"{double:.17g}"]
    agree((), [b'{"id":1,"x":%b}' % one.encode() for one in spelled if len(one) < 400])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(-1000, 1000, places=3).map(float)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner),
    max_leaves=25,
)  # fmt: skip


@settings(max_examples=examples(200), deadline=None)
@given(
    st.dictionaries(st.text(max_size=4).filter(lambda name: name.isprintable()), json_values),
    st.sampled_from([None, 1]),
)
def test_any_value(document: dict[str, object], indent: int | None) -> None:
    text = json.dumps({**document, "id": 1}, ensure_ascii=False, indent=indent)
    agree((), [text.encode("utf-8", "surrogatepass")])
