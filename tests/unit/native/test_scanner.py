"""The scanner accepts ordinary bodies, and reads what it accepts as the Python path would.

It is there in the compiled build only. A longer search, for instance on a module that was built
with sanitizers: `PYTHONPATH=...:tests:loadtest python tests/unit/native/test_scanner.py SECONDS`.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice, product
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.formats.decode import decode
from headgate.core.keys import partition_for
from headgate.core.refusal import Refused
from headgate.core.scanning import scanner_for
from headgate.core.suppression.digest import Digester
from support.gateway.fakes import policy, route, topic_state
from support.gateway.json_texts import BAD_UTF8, NO, YES
from workload import EVENT_BYTES, Shape, events

IS_THERE = importlib.util.find_spec("headgate.native._scanner") is not None
if TYPE_CHECKING or IS_THERE or os.environ.get("EXPECT_COMPILED") == "1":
    from headgate.native import _scanner as scanner

pytestmark = pytest.mark.skipif(not IS_THERE, reason="not compiled")

JSON, NDJSON = b"application/json", b"application/x-ndjson"
CUTS = {"lines": NDJSON, "elements": JSON, "one": JSON}
ALL = 1_000_000
KEY = b"fingerprint"
PREFIX = b"value" + len(JSON).to_bytes(4, "big") + JSON


class Rules(NamedTuple):
    """What a scanner is made of, but for the digest."""

    member: str | None = "id"
    partitions: int = 6
    max_depth: int = 64
    max_value_bytes: int = 1_000_000


RULES = [
    Rules(),
    Rules(None),
    Rules("a", 1, 3),
    Rules("", 100, 1),
    Rules("ключ", 2**31 - 1, 512, 60),
    Rules("a/b~c", 7, 5, 200),
]


def scan(rules: Rules, cut: str, body: bytes, most: int = ALL) -> scanner.Scanned | None:
    member = None if rules.member is None else rules.member.encode()
    made = scanner.Scanner(member, *rules[1:], KEY, PREFIX)
    return made.one(body) if cut == "one" else getattr(made, cut)(body, most)


def read(rules: Rules, cut: str, body: bytes, most: int = ALL) -> scanner.Scanned | None:
    """As the Python path reads it; None where it refuses a document, or one is no plain bytes."""
    pointer = () if rules.member is None else (_pointer(rules.member),)
    taken = route(topic_state(partitions=rules.partitions), rules.max_depth, key=pointer)
    digest = Digester(KEY).digest
    try:
        found = decode(body, {b"content-type": CUTS[cut]}, limit=most)
        values = [event for event in found.events if isinstance(event, bytes)]
        keys = [taken._key(value, None) for value in values]
    except Refused:
        return None
    if len(values) != len(found.events) or found.is_batch == (cut == "one"):
        return None
    digests = [digest(value, JSON) for value in values]
    if not pointer:
        return values, None, None, digests
    known = [key for key in keys if key is not None]
    return values, known, [partition_for(key, rules.partitions) for key in known], digests


def _pointer(member: str) -> str:
    return "/" + member.replace("~", "~0").replace("/", "~1")


def check(rules: Rules, cut: str, body: bytes, most: int = ALL) -> bool:
    """Whether it was accepted; fails when that was wrong."""
    found = scan(rules, cut, body, most)
    if found is not None:
        assert found == read(rules, cut, body, most), (rules, cut, body)
        assert 0 < len(found[0]) <= (1 if cut == "one" else most)
        assert max(map(len, found[0])) <= rules.max_value_bytes
    return found is not None


# ---- What must be accepted

ORDINARY = list(islice(events(Shape()), 70))


@pytest.mark.parametrize("rules", [Rules(), Rules(None)])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 63, 64, 65, 70])
def test_ordinary_bodies_are_accepted(rules: Rules, count: int) -> None:
    values = ORDINARY[:count]
    assert check(rules, "lines", b"\n".join(values))
    assert check(rules, "lines", b"\n".join(values) + b"\n")
    assert check(rules, "lines", b" \t\n\n" + b" \n\t".join(values) + b"\n\n \t")
    assert check(rules, "elements", b"[" + b",".join(values) + b"]")
    assert check(rules, "elements", b" \r\n[ " + b"\t,\r\n ".join(values) + b" ] \n")
    assert check(rules, "one", values[-1])
    assert check(rules, "one", b" \r\n\t" + values[-1] + b"\r\n")


def test_what_an_answer_is_made_of() -> None:
    body = b' {"id":"x", "n": [1]}\t\n{"id": -7}\n'
    found = scan(Rules(), "lines", body)
    assert found is not None
    assert found[0] == [b' {"id":"x", "n": [1]}\t', b'{"id": -7}']
    assert found[1] == [b"x", b"-7"]
    assert scanner.Scanner(None, 6, 64, 99, None).lines(body, 2) == (found[0], None, None, None)
    assert scanner.Scanner(b"id", 6, 64, 99, None).lines(body, 2) == (*found[:3], None)


def test_only_what_has_a_key_is_digested() -> None:
    """Suppression settles whatever has a digest, and knows keys alone."""
    for key, is_digested in (((), False), (("/id",), True)):
        chosen = policy(key=key, keyless="spread", suppress="raw")
        made = scanner_for(chosen, topic_state(), 64, Digester(KEY))
        assert made is not None
        found = made.one(b'{"id":"a"}')
        assert found is not None
        assert (found[3] is not None) == is_digested


any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)
plain_text = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"\\'), max_size=40
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(plain_text.filter(lambda name: name != "id"), json_values, max_size=5),
            plain_text.filter(bool) | st.integers(),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([None, 1]),
)
def test_whatever_has_a_plain_key_and_plain_names_is_accepted(
    members: list[tuple[dict[str, object], str | int]], indent: int | None
) -> None:
    documents = [{**others, "id": key} for others, key in members]
    texts = [json.dumps(one, ensure_ascii=False, indent=indent).encode() for one in documents]
    assert check(Rules(), "elements", b"[" + b" , ".join(texts) + b"]")
    assert check(Rules(), "one", texts[0])
    if indent is None:
        assert check(Rules(), "lines", b"\n".join(texts))


# ---- What must not be

ID = b'{"id":"7","x":%b}'


def bodies_around(text: bytes) -> Iterator[tuple[str, bytes]]:
    yield from (("one", text), ("lines", text), ("elements", b"[" + text + b"]"))
    yield from (("lines", ORDINARY[0] + b"\n" + text), ("lines", text + b"\n" + ORDINARY[0]))
    yield "elements", b"[" + ORDINARY[0] + b"," + text + b"]"
    yield "elements", b"[" + text + b"," + ORDINARY[0] + b"]"


@pytest.mark.parametrize("rules", [Rules(), Rules(None), Rules("a", 3, 2)])
def test_what_the_minefield_says(rules: Rules) -> None:
    for text in YES + NO + BAD_UTF8:
        for body in (text, ID % text):
            for cut, around in bodies_around(body):
                accepted = check(rules, cut, around)
                assert not (accepted and text in BAD_UTF8)


@pytest.mark.parametrize("text", [text for text in YES if b"\\u" not in text and b"\r" not in text])
def test_everything_valid_is_accepted_as_a_members_value(text: bytes) -> None:
    assert check(Rules(), "one", ID % text)
    assert check(Rules(), "elements", b"[" + ID % text + b"]")
    assert check(Rules(), "lines", ID % text) == (b"\n" not in text)


@pytest.mark.parametrize(
    "document",
    [
        b'{"a":1}', b"{}", b'{"id":""}', b'{"id":null}', b'{"id":true}', b'{"id":1.0}',
        b'{"id":1e2}', b'{"id":"a\\n"}', b'{"id":"\\u0041"}', b'{"id":[]}', b'{"id":{}}',
        b'{"id":{"id":1}}',
        b'{"id":1,"id":1}', b'{"id":"x","id":null}', b'{"\\u0069d":1}', b'{"id":1,"\\n":2}',
        b'{"x":{"id":1}}', b'{"id":-}', b'{"id":01}', b'{"id":+1}', b'{"id":"x"', b'{"id"}',
        b'["id"]', b'"id"', b"7", b"null", b'{"id":1}\x00', b'\x00{"id":1}', b'{"id":1}{"id":2}',
        b'{"id":1},', b'{"id":1}x', b'\xef\xbb\xbf{"id":1}', b'{"id":"\\ud834\\udd1e"}',
        b'{"id":1,"x":"\\ud800"}', b'{"id":1,"x":"\\uDC00"}', b'{"id":1,"x":"\\uDbff"}',
        b'{"id":1}\x0b', b'{"id":1}\xa0', b"", b" ", b"\n",
        b'{"id":1,"x":"\xed\xa0\x80"}', b'{"id":1,"\xff":1}', b'\xc2\xa0{"id":1}',
    ],
)  # fmt: skip
def test_what_is_left_to_the_slower_path(document: bytes) -> None:
    assert not check(Rules(), "one", document)
    assert not check(Rules(), "elements", b"[" + document + b"]")
    if document.strip():
        assert not check(Rules(), "lines", ORDINARY[0] + b"\n" + document + b"\n" + ORDINARY[1])
    else:
        assert not check(Rules(), "lines", document)


def test_what_is_around_the_documents_counts() -> None:
    assert not check(Rules(None), "lines", b"{}\r\n{}")
    assert not check(Rules(None), "lines", b'{"a":\n1}')
    assert not check(Rules(None), "lines", b"{} {}")
    for text in (b"[]", b"[ ]", b"[{}", b"[{},]", b"[,{}]", b"[{}]]", b"[{}]x", b"[{} {}]", b"{}",
                 b"[{}]\x00", b"\x00[{}]", b"[[{}]]", b"[{},1]", b"\xef\xbb\xbf[{}]"):  # fmt: skip
        assert not check(Rules(None), "elements", text)
    assert not check(Rules(None), "one", b"[{}]")


def test_limits() -> None:
    for cut, body in (("lines", b'{"id":1}\n{"id":2}'), ("elements", b'[{"id":1},{"id":2}]')):
        assert check(Rules(), cut, body, 2)
        assert [check(Rules(), cut, body, most) for most in (1, 0, -1)] == [False] * 3
        assert check(Rules(max_value_bytes=8), cut, body)
        assert not check(Rules(max_value_bytes=7), cut, body)
    for depth in (0, 1, 2, 63, 64, 65, 127, 128, 129, 510, 511, 512, 513, 600, 5000):
        for opening, closing in ((b"[", b"]"), (b'{"a":', b"}"), (b'[{"":', b"}]")):
            deep = opening * (depth // len(closing)) + b"1" + closing * (depth // len(closing))
            inner = depth // len(closing) * len(closing)
            for limit in (1, 2, 64, 512, 100_000):
                is_ordinary = inner + 1 <= min(limit, 512)
                rules = Rules(max_depth=limit)
                for cut, text in (("one", b"%b"), ("elements", b"[%b]"), ("lines", b"%b\n")):
                    assert (scan(rules, cut, text % ID % deep) is not None) == is_ordinary
                    assert depth > 200 or check(rules, cut, text % ID % deep) == is_ordinary
                    assert not check(rules, cut, text % ID % deep[:-1])


def test_arguments() -> None:
    made = scanner.Scanner(b"id", 6, 64, 99, None)
    for wrong in ("{}", bytearray(b"{}"), memoryview(b"{}"), None):
        for call in (lambda: made.one(wrong), lambda: made.lines(wrong, 1)):  # noqa: B023
            with pytest.raises(TypeError):
                call()
    with pytest.raises(TypeError):
        made.lines(b"{}", "1")
    with pytest.raises(TypeError):
        made.lines(b"{}")
    assert made.lines(b'{"id":1}', 10**40) is not None
    for arguments in (("id", 6, 64, 99, None), (b"id", 6, 64, 99, "key"), (b"id", 6, 64)):
        with pytest.raises(TypeError):
            scanner.Scanner(*arguments)
    for arguments in ((b"id", 0, 64, 99, None), (b"id", 2**31, 64, 99, None),
                      (b"id", 6, 64, 99, b"k" * 65)):  # fmt: skip
        with pytest.raises(ValueError, match=r"partitions|digest_key"):
            scanner.Scanner(*arguments)


# ---- UTF-8, digests, partitions


def test_utf8_as_python_reads_it() -> None:
    edges = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF, 0x41]
    leads = range(0x80, 0x100)
    texts = [bytes(text) for text in product(leads)]
    texts += [bytes(text) for text in product(leads, range(0x40, 0x100))]
    texts += [bytes(text) for text in product([0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF], edges, edges)]
    texts += [bytes(text) for text in product(range(0xEF, 0x100), edges, edges, edges)]
    texts += [b"\xf0\x9f\x98\x80\x80", b"\xe2\x82", b"\xf0\x9f\x98", b"\xc3\xa9" * 40]
    made, accepted = scanner.Scanner(None, 1, 9, 999, None), 0
    for text in texts:
        is_valid = not any(sign < 0x20 or sign in b'"\\' for sign in text)
        try:
            text.decode()
        except UnicodeDecodeError:
            is_valid = False
        accepted += is_valid
        for before in (0, 13, 40):
            assert (made.one(b'{"%b%b":0}' % (b"x" * before, text)) is not None) == is_valid, text
    assert 2000 < accepted < len(texts) / 2


def test_strings_of_every_length_and_place() -> None:
    """A string ends, stops or is beyond ASCII at every place of the widths read at once."""
    made = scanner.Scanner(b"id", 6, 9, 9999, None)
    for length, after in product(range(100), (0, 1, 15, 16, 31, 32, 40)):
        for sign in (b"", b"\\t", "é".encode(), b"\x1f", b"\\x", b"\xff", b"\x00"):
            is_fine = sign in (b"", b"\\t", "é".encode())
            text = b"x" * length + sign + b"y" * after
            body = b'{"id":1,"x":"%b"}' % text
            assert (made.one(body) is not None) == is_fine, body
            assert made.one(body[:-1]) is made.one(body[:-2]) is None


@pytest.mark.parametrize("key", [b"", b"k", b"fingerprint", b"k" * 64])
@pytest.mark.parametrize("prefix", [b"", PREFIX, b"p" * 127, b"p" * 128, b"p" * 300])
def test_digests_of_every_length(key: bytes, prefix: bytes) -> None:
    made = scanner.Scanner(None, 1, 9, 9999, key, prefix)
    values = [b"{" + b" " * length + b"}" for length in range(1100)]
    random.Random(len(key + prefix)).shuffle(values)
    expected = [blake2b(prefix + one, digest_size=16, key=key).digest() for one in values]
    one_by_one, at = [], 0
    for size in [*range(1, 46), *[1] * 100]:  # many at once, and each alone
        found = made.lines(b"\n".join(values[at : at + size]), size)
        one_by_one += found[3] if found and found[3] else []
        at += size
    assert one_by_one == expected[:at]
    found = made.elements(b"[" + b",".join(values) + b"]", len(values))
    assert found == (values, None, None, expected)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3000), min_size=1, max_size=30), st.binary(max_size=200))
def test_digests_of_mixed_lengths(lengths: list[int], prefix: bytes) -> None:
    values = [b'{"":"' + b"x" * length + b'"}' for length in lengths]
    found = scanner.Scanner(None, 1, 9, 9999, KEY, prefix).lines(b"\n".join(values), ALL)
    assert found is not None
    assert found[3] == [blake2b(prefix + v, digest_size=16, key=KEY).digest() for v in values]


@settings(deadline=None)
@given(st.lists(plain_text.filter(bool), min_size=1, max_size=20), st.integers(1, 2**31 - 1))
def test_partitions(keys: list[str], partitions: int) -> None:
    body = b"\n".join(b'{"id":"%b"}' % key.encode() for key in keys)
    found = scan(Rules(partitions=partitions), "lines", body)
    assert found is not None
    assert found[2] == [partition_for(key.encode(), partitions) for key in keys]


# ---- A search

PIECES = [
    b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b" ", b"\t", b"\n", b"\r", b"0", b"-", b"1e5",
    b".5", b"true", b"null", b"fals", b"\\u00e9", b"\\ud83d", b"\\\\", b'\\"', b"\x00", b"\x1f",
    b"\x7f", "é€\U0001f600".encode(), b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xff",
    b'"id":', b'"a":', b'"":1,', b'"id":"7",', b"{}", b"[]", b"\xef\xbb\xbf", b"x" * 33, b"[[[[",
    b"]]]]",
]  # fmt: skip


def document(rng: random.Random, member: str | None) -> bytes:
    """A valid one with a key, most of the time."""
    name = "other" if member is None or rng.random() < 0.05 else member
    key: object = rng.choice(["7", "ключ é", 5, -12, 10**30, "x" * 20, 0, "a:b%"])
    inner = rng.choice([b"1", b'"t"', ORDINARY[0], rng.choice(YES), rng.choice(YES)])
    if rng.random() < 0.05:
        inner = rng.choice(NO)
    if rng.random() < 0.3:
        inner = b'{"n":[%b,{"m":%b}]}' % (inner, rng.choice(YES))
    head = b'"%b":%b' % (name.encode(), json.dumps(key, ensure_ascii=False).encode())
    others = [b'"x":%b' % inner, b'"y" : {"id":[ 1.5e-3, true,null ]}', b'"z":"%b"' % (b"z" * 40)]
    members = [head, *rng.sample(others, rng.randrange(4))]
    rng.shuffle(members)
    return b"{" + b",".join(members) + b"}"


def mutated(rng: random.Random, body: bytes) -> bytes:
    """The body with a few changes, or none."""
    for _ in range(rng.choice([0, 0, 1, 1, 1, 3])):
        at = rng.randrange(len(body) + 1)
        gone = rng.choice([0, 0, 1, 1, 2, rng.randrange(20)])
        new = rng.choice([b"", bytes([rng.randrange(256)]), rng.choice(PIECES), rng.choice(PIECES)])
        if rng.random() < 0.1 and body:
            start = rng.randrange(len(body))
            new = body[start : start + rng.randrange(30)]
        body = body[:at] + new + body[at + gone :]
    return body[: rng.randrange(len(body) + 1)] if rng.random() < 0.05 else body


def search(seed: int, rounds: int) -> tuple[int, int]:
    """(bodies tried, bodies accepted)"""
    rng = random.Random(seed)
    tried, accepted = 0, 0
    for _ in range(rounds):
        rules = rng.choice(RULES)
        some = [document(rng, rules.member) for _ in range(rng.choice([1, 1, 2, 3, 6]))]
        most = rng.choice([ALL, ALL, ALL, len(some), len(some) - 1])
        for cut, body in (
            ("lines", b"\n".join(some) + rng.choice([b"", b"\n"])),
            ("elements", b"[" + b", ".join(some) + b"]"),
            ("one", some[0]),
        ):
            tried += 1
            accepted += check(rules, cut, mutated(rng, body), most)
    return tried, accepted


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_accepted_that_the_python_path_reads_otherwise(seed: int) -> None:
    tried, accepted = search(seed, 3000)
    assert tried / 20 < accepted < tried / 2


def test_nothing_is_kept() -> None:
    """Neither references nor memory, whatever the end."""
    member, body = b"i" + b"d", b"\n".join(ORDINARY)
    bodies = [body, body[:-1], body + b"\n{}", b'{"id":"', b"[" + b",".join(ORDINARY) + b"]"]
    made = scanner.Scanner(member, 6, 64, EVENT_BYTES, KEY, PREFIX)

    def call() -> None:
        for one in bodies:
            made.lines(one, ALL), made.elements(one, ALL), made.one(one), made.lines(one, 3)
        with pytest.raises(ValueError, match="longer"):
            scanner.Scanner(member, 6, 64, 99, KEY * 9)
        scanner.Scanner(member, 6, 64, 99, None)

    counted = [*bodies, member, type(made), None]
    call()
    gc.collect()
    references, blocks = [*map(sys.getrefcount, counted)], sys.getallocatedblocks()
    for _ in range(50):
        call()
    gc.collect()
    assert [*map(sys.getrefcount, counted)][:-1] == references[:-1]
    assert abs(sys.getrefcount(None) - references[-1]) < 50  # others use it, too
    assert abs(sys.getallocatedblocks() - blocks) < 50


if __name__ == "__main__":
    until = time.monotonic() + float(sys.argv[1])
    seed, total = int.from_bytes(os.urandom(4), "big"), [0, 0]
    while time.monotonic() < until:
        total = [sum(pair) for pair in zip(total, search(seed, 1000), strict=True)]
        seed += 1
    sys.stdout.write(f"{total[0]} bodies, {total[1]} accepted, last seed {seed}\n")
