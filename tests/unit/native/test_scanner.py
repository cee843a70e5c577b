"""What reads bodies, in C and by the ordinary way: the same cases and the same expectations.

The one in C leaves what is unusual to the other, and those cases say so.  A longer search: `make
fuzz`.
"""

from __future__ import annotations

import gc
import json
import os
import random
import re
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from itertools import islice, product
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.formats.decode import scanner_for
from headgate.model.content import Comparison, Digester
from headgate.model.keys import parse_pointer, partition_for
from headgate.model.route import Scanned, Scanner
from headgate.native import chosen
from support.fuzz.rounds import Counts, main
from support.gateway.fakes import policy, topic_state
from support.gateway.json_texts import BAD_UTF8, NO, YES
from support.gateway.plain_scanner import JSON, PlainScanner
from support.gateway.random_json import members
from support.memory import CALLS, blocks_kept
from workload import EVENT_BYTES, Shape, events

IS_COMPILED = os.environ.get("EXPECT_COMPILED") == "1"
WAYS = ["python", "c"] if IS_COMPILED else ["python"]
BOTH = pytest.mark.parametrize("way", WAYS)
C_ALONE = pytest.mark.skipif(not IS_COMPILED, reason="about C, which is not compiled")

ALL = 1_000_000
ID_ALONE = ((b"id",),)
KEY = b"fingerprint"
PREFIX = b"value" + len(JSON).to_bytes(4, "big") + JSON
DIGESTER = Digester(KEY)


class Rules(NamedTuple):
    """What a scanner is made of, but for the digest.

    ignore: digests are of canonical forms without that; None: of bytes.
    """

    pointers: tuple[str, ...] = ("/id",)
    partitions: int = 6
    max_depth: int = 64
    max_value_bytes: int = 1_000_000
    ignore: tuple[str, ...] | None = None


RULES = [
    Rules(),
    Rules(()),
    Rules(("/a",), 1, 3),
    Rules(("/",), 100, 1),
    Rules(("/ключ",), 2**31 - 1, 512, 60),
    Rules(("/a~1b~0c",), 7, 5, 200),
    Rules(("/customer/ref",)),
    Rules(("/a/b/a/0",), 12, 9),
    Rules(("/id", "/x/id", "/x/a")),
    Rules(("/y/id", "/a/b", "/a/c/", "/x"), 5, 4),
    Rules(ignore=()),
    Rules(ignore=("/n", "/m/id", "/c/a", "/c/b/n", "/c/at")),
    Rules(("/a/b", "/a/id"), ignore=("/a/n", "/z", "/c")),
]


@cache
def made(way: str, rules: Rules, digester: Digester | None = DIGESTER) -> Scanner:
    pointers, partitions, max_depth, max_bytes, ignore = rules
    compared = digester if ignore is None else Comparison(KEY, ignore, 4_000_000)
    how = policy(keyless="spread", max_bytes=max_bytes)
    if pointers:
        how = policy(key=pointers, max_bytes=max_bytes)
    lane = topic_state(partitions=partitions)
    if way == "python":
        plain = compared.digest if isinstance(compared, Digester) else compared
        return PlainScanner(how, lane, max_depth, plain)
    scanner = scanner_for(how, lane, max_depth, compared)
    assert scanner is not None
    return scanner


def scan(way: str, rules: Rules, cut: str, body: bytes, most: int = ALL) -> Scanned | None:
    scanner = made(way, rules)
    if cut == "one":
        return scanner.one(body)
    return scanner.lines(body, most) if cut == "lines" else scanner.elements(body, most)


def scanned(values: list[bytes], keys: list[bytes], rules: Rules = RULES[0]) -> Scanned:
    if not rules.pointers:
        return values, None, None, None
    places = [partition_for(key, rules.partitions) for key in keys]
    return values, keys, places, [digested(value, PREFIX, KEY) for value in values]


def digested(value: bytes, prefix: bytes, key: bytes) -> bytes:
    return blake2b(prefix + value, digest_size=16, key=key).digest()


def bodies_of(
    document: bytes, key: bytes, rules: Rules = RULES[0]
) -> Iterator[tuple[str, bytes, Scanned]]:
    """(cut, body, what is to be found) with a document alone, before and behind another."""
    yield "one", document, scanned([document], [key], rules)
    one, other = (document, key), (ORDINARY[0], KEYS[0])
    for some in ([one], [one, other], [other, one]):
        values = [value for value, _ in some]
        found = scanned(values, [its_key for _, its_key in some], rules)
        yield "elements", b"[" + b",".join(values) + b"]", found
        if b"\n" not in document:
            yield "lines", b"\n".join(values), found


# ---- What is read

ORDINARY = list(islice(events(Shape()), 70))
KEYS = [str(json.loads(one)["id"]).encode() for one in ORDINARY]


def test_the_build_has_the_way_that_it_is_for() -> None:
    assert (chosen.Scanner is not None) is IS_COMPILED


@BOTH
@pytest.mark.parametrize("rules", [Rules(), Rules(())])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 63, 64, 65, 70])
def test_ordinary_bodies(way: str, rules: Rules, count: int) -> None:
    values = ORDINARY[:count]
    found = scanned(values, KEYS[:count], rules)
    assert scan(way, rules, "lines", b"\n".join(values)) == found
    assert scan(way, rules, "lines", b" \t\n\n" + b"\n".join(values) + b"\n\n \t") == found
    assert scan(way, rules, "elements", b"[" + b",".join(values) + b"]") == found
    assert scan(way, rules, "elements", b" \r\n[ " + b"\t,\r\n ".join(values) + b" ] \n") == found
    for body in (values[-1], b" \r\n\t" + values[-1] + b"\r\n"):
        assert scan(way, rules, "one", body) == scanned([body], KEYS[count - 1 : count], rules)


@BOTH
def test_what_an_answer_is_made_of(way: str) -> None:
    body = b' {"id":"x", "n": [1]}\t\n{"id": -7}\n'
    values, keys = [b' {"id":"x", "n": [1]}\t', b'{"id": -7}'], [b"x", b"-7"]
    places = [partition_for(key, 6) for key in keys]
    assert scan(way, Rules(), "lines", body) == scanned(values, keys)
    assert made(way, Rules(), None).lines(body, 2) == (values, keys, places, None)
    # Suppression settles whatever has a digest, and knows keys alone.
    assert made(way, Rules(())).lines(body, 2) == (values, None, None, None)


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
plain_keys = plain_text.filter(bool)
plain_names = plain_text.filter(lambda name: name != "id")


@BOTH
@settings(max_examples=60, deadline=None)
@given(
    members=st.lists(
        st.tuples(
            st.dictionaries(plain_names, json_values, max_size=5), plain_keys | st.integers()
        ),
        min_size=1,
        max_size=6,
    ),
    indent=st.sampled_from([None, 1]),
)
def test_whatever_has_a_plain_key_and_plain_names(
    way: str, members: list[tuple[dict[str, object], str | int]], indent: int | None
) -> None:
    documents = [{**others, "id": key} for others, key in members]
    texts = [json.dumps(one, ensure_ascii=False, indent=indent).encode() for one in documents]
    keys = [str(key).encode() for _, key in members]
    found = scanned(texts, keys)
    assert scan(way, Rules(), "elements", b"[" + b" , ".join(texts) + b"]") == found
    assert scan(way, Rules(), "one", texts[0]) == scanned(texts[:1], keys[:1])
    if indent is None:
        assert scan(way, Rules(), "lines", b"\n".join(texts)) == found


# ---- What JSON is

ID = b'{"id":"7","x":%b}'
SURROGATE = re.compile(rb"(?<!\\)\\u[dD][89a-fA-F]")


@BOTH
@pytest.mark.parametrize("rules", [Rules(), Rules(())])
def test_a_members_value_is_what_json_says(way: str, rules: Rules) -> None:
    for text in YES + NO + BAD_UTF8:
        is_left = way == "c" and SURROGATE.search(text) is not None
        for cut, body, found in bodies_of(ID % text, b"7", rules):
            is_read = text in YES and not is_left
            assert scan(way, rules, cut, body) == (found if is_read else None), body


REFUSED = [
    b'{"a":1}', b"{}", b'{"id":""}', b'{"id":null}', b'{"id":1.0}', b'{"id":1e2}', b'{"id":[]}',
    b'{"id":{}}', b'{"id":{"id":1}}', b'{"id":"x","id":null}', b'{"x":{"id":1}}', b'{"id":-}',
    b'{"id":01}', b'{"id":+1}', b'{"id":"x"', b'{"id"}', b'["id"]', b'"id"', b"7", b"null",
    b'{"id":1}\x00', b'\x00{"id":1}', b'{"id":1}{"id":2}', b'{"id":1}x',
    b'\xef\xbb\xbf{"id":1}', b'{"id":1}\x0b', b'{"id":1}\xa0',
    b'{"id":1,"x":"\xed\xa0\x80"}', b'{"id":1,"\xff":1}', b'\xc2\xa0{"id":1}',
]  # fmt: skip
# The one in C leaves them to the ordinary way, which finds these keys.
LEFT = [
    (b'{"id":true}', b"true"), (b'{"id":"a\\n"}', b"a\n"), (b'{"id":"\\u0041"}', b"A"),
    (b'{"id":1,"id":2}', b"2"), (b'{"\\u0069d":1}', b"1"), (b'{"id":1,"\\n":2}', b"1"),
    (b'{"id":"\\ud834\\udd1e"}', "\U0001d11e".encode()), (b'{"id":1,"x":"\\ud800"}', b"1"),
    (b'{"id":1,"x":"\\uDC00"}', b"1"), (b'{"id":1,"x":"\\uDbff"}', b"1"),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(("document", "key"), [*((one, None) for one in REFUSED), *LEFT])
def test_a_document_that_is_refused_or_left(way: str, document: bytes, key: bytes | None) -> None:
    for cut, body, found in bodies_of(document, key or b""):
        is_read = key is not None and way == "python"
        assert scan(way, Rules(), cut, body) == (found if is_read else None)


TWO = Rules(("/a/id", "/b"))
# Document and key; None: it has none. Left: the one in C leaves it to the ordinary way.
NESTED = [
    (b'{"a":{"id":"x"},"b":2}', b"x:2"),
    ('{"b":"\u00e9","c":{"a":{"id":9}},"a" : { "id" : -1 } }'.encode(), "-1:\u00e9".encode()),
    (b'{"a":{"b":{"id":5},"id":"x","a":{"id":6}},"b":2}', b"x:2"),
    (b'{"a":{"n":[{"id":1}],"id":"x"},"b":2}', b"x:2"), (b'{"a":[{"id":1}],"b":2}', None),
    (b'{"a":{"id":"x"}}', None), (b'{"a":{},"b":2}', None), (b'{"a":"id","b":2}', None),
    (b'{"a":null,"b":2}', None), (b'{"a":{"id":{}},"b":2}', None), (b'{"a":{"id":""},"b":2}', None),
    (b'{"a":{"id":"x"},"b":{"id":1}}', None), (b'{"b":{"a":{"id":"x"}}}', None),
]  # fmt: skip
NESTED_LEFT = [
    (b'{"a":{"id":"x:y"},"b":"%"}', b"x%3Ay:%25"), (b'{"a":{"id":"x","id":"y"},"b":2}', b"y:2"),
    (b'{"a":{"id":"x"},"a":{"id":"y"},"b":2}', b"y:2"), (b'{"a":{"\\u0069d":"x"},"b":2}', b"x:2"),
    (b'{"a":{"id":"x"},"b":2,"a":3}', None), (b'{"a":{"id":"\\u0078"},"b":true}', b"x:true"),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(("document", "key", "is_left"), [
    *((*one, False) for one in NESTED), *((*one, True) for one in NESTED_LEFT),
])  # fmt: skip
def test_keys_inside_of_documents(
    way: str, document: bytes, key: bytes | None, is_left: bool
) -> None:
    is_read = key is not None and not (way == "c" and is_left)
    found = scanned([document], [key or b""], TWO)
    for cut, body in (("one", b"%b"), ("elements", b"[%b]"), ("lines", b"%b\n")):
        assert scan(way, TWO, cut, body % document) == (found if is_read else None)


@BOTH
@pytest.mark.parametrize("count", [31, 32, 33, 64, 65, 300])
def test_keys_of_many_parts_in_many_documents(way: str, count: int) -> None:
    rules = Rules(("/a/b", "/a/c", "/d", "/id"))
    values = [b'{"d":%d,"id":"i","a":{"c":"c","b":%d}}' % (n, -n) for n in range(count)]
    keys = [b"%d:c:%d:i" % (-n, n) for n in range(count)]
    assert scan(way, rules, "lines", b"\n".join(values)) == scanned(values, keys, rules)


AROUND: list[tuple[str, bytes, list[bytes] | None]] = [
    # What the ordinary way finds where the one in C leaves the body; None: refused, or no batch.
    ("lines", b"{}\r\n{}", [b"{}", b"{}"]), ("lines", b'{"a":\n1}', None),
    ("lines", b"{} {}", None), ("lines", b"", None), ("lines", b" ", None), ("lines", b"\n", None),
    ("elements", b"[[{}]]", [b"[{}]"]), ("elements", b"[{},1]", [b"{}", b"1"]),
    *(("elements", body, None) for body in (
        b"[]", b"[ ]", b"[{}", b"[{},]", b"[,{}]", b"[{}]]", b"[{}]x", b"[{} {}]", b"{}",
        b"[{}]\x00", b"\x00[{}]", b"\xef\xbb\xbf[{}]", b"",
    )),
    ("one", b"[{}]", None), ("one", b"{},", None), ("one", b"", None), ("one", b" ", None),
    ("one", b"7", [b"7"]), ("one", b"null", [b"null"]),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(("cut", "body", "values"), AROUND)
def test_what_is_around_the_documents(
    way: str, cut: str, body: bytes, values: list[bytes] | None
) -> None:
    found = None if values is None or way == "c" else scanned(values, [], Rules(()))
    assert scan(way, Rules(()), cut, body) == found


# ---- Limits


@BOTH
def test_limits(way: str) -> None:
    values, keys = [b'{"id":1}', b'{"id":2}'], [b"1", b"2"]
    found = scanned(values, keys)
    for cut, body in (("lines", b"\n".join(values)), ("elements", b"[" + b",".join(values) + b"]")):
        assert scan(way, Rules(), cut, body, 2) == found
        assert [scan(way, Rules(), cut, body, most) for most in (1, 0, -1)] == [None] * 3
        assert scan(way, Rules(max_value_bytes=8), cut, body) == found
        # Left: the ordinary way reads it, and `oversize` decides.
        left = None if way == "c" else found
        assert scan(way, Rules(max_value_bytes=7), cut, body) == left


@BOTH
@pytest.mark.parametrize("depth", [0, 1, 2, 63, 64, 65, 127, 128, 129, 510, 511, 512, 513, 5000])
def test_depth(way: str, depth: int) -> None:
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}"), (b'[{"":', b"}]")):
        inner = depth // len(closing)
        document = ID % (opening * inner + b"1" + closing * inner)
        for limit in (1, 2, 64, 512, 100_000):
            rules, nested = Rules(max_depth=limit), inner * len(closing) + 1
            if way == "python" and 512 < nested <= limit:
                continue  # where it ends depends on the stack; the one in C leaves them all
            is_read = nested <= min(limit, 512)
            found = scanned([document], [b"7"]) if is_read else None
            for cut, body in (("one", b"%b"), ("elements", b"[%b]"), ("lines", b"%b\n")):
                assert scan(way, rules, cut, body % document) == found
                assert scan(way, rules, cut, body % document[:-1]) is None


# ---- UTF-8, digests, partitions


@BOTH
def test_utf8_as_python_reads_it(way: str) -> None:
    edges = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF, 0x41]
    leads = range(0x80, 0x100)
    texts = [bytes(text) for text in product(leads)]
    texts += [bytes(text) for text in product(leads, range(0x40, 0x100))]
    texts += [bytes(text) for text in product([0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF], edges, edges)]
    texts += [bytes(text) for text in product(range(0xEF, 0x100), edges, edges, edges)]
    texts += [b"\xf0\x9f\x98\x80\x80", b"\xe2\x82", b"\xf0\x9f\x98", b"\xc3\xa9" * 40]
    scanner, accepted = made(way, Rules(())), 0
    for text in texts:
        is_valid = not any(sign < 0x20 or sign in b'"\\' for sign in text)
        try:
            text.decode()
        except UnicodeDecodeError:
            is_valid = False
        accepted += is_valid
        for before in (0, 13, 40):
            body = b'{"%b%b":0}' % (b"x" * before, text)
            assert (scanner.one(body) is not None) == is_valid, text
    assert 2000 < accepted < len(texts) / 2


@BOTH
def test_strings_of_every_length_and_place(way: str) -> None:
    """A string ends, stops or is beyond ASCII at every place of the widths read at once."""
    scanner = made(way, Rules())
    for length, after in product(range(100), (0, 1, 15, 16, 31, 32, 40)):
        for sign in (b"", b"\\t", "é".encode(), b"\x1f", b"\\x", b"\xff", b"\x00"):
            is_fine = sign in (b"", b"\\t", "é".encode())
            text = b"x" * length + sign + b"y" * after
            body = b'{"id":1,"x":"%b"}' % text
            assert scanner.one(body) == (scanned([body], [b"1"]) if is_fine else None)
            assert scanner.one(body[:-1]) is scanner.one(body[:-2]) is None


@BOTH
@pytest.mark.parametrize("key", [b"", b"k", b"fingerprint", b"k" * 64])
@pytest.mark.parametrize("kind", [b"", b"value", b"p" * 107, b"p" * 108, b"p" * 300])
def test_digests_of_every_length(way: str, key: bytes, kind: bytes) -> None:
    digester = Digester(key, kind)  # what goes before a value has 20 bytes more than the kind
    scanner = made(way, Rules(), digester)
    values = [b'{"id":7' + b" " * length + b"}" for length in range(1100)]
    random.Random(len(key + kind)).shuffle(values)
    expected = [digested(value, kind + PREFIX[5:], key) for value in values]
    one_by_one: list[bytes] = []
    for size in [*range(1, 46), *[1] * 65]:  # many at once, and each alone
        at = len(one_by_one)
        found = scanner.lines(b"\n".join(values[at : at + size]), size)
        one_by_one += found[3] if found and found[3] else []
    assert one_by_one == expected
    found = scanner.elements(b"[" + b",".join(values) + b"]", len(values))
    assert found is not None
    assert found[3] == expected


@BOTH
@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(0, 3000), min_size=1, max_size=30), kind=st.binary())
def test_digests_of_mixed_lengths(way: str, lengths: list[int], kind: bytes) -> None:
    values = [b'{"id":7,"":"' + b"x" * length + b'"}' for length in lengths]
    found = made(way, Rules(), Digester(KEY, kind)).lines(b"\n".join(values), ALL)
    assert found is not None
    assert found[3] == [digested(value, kind + PREFIX[5:], KEY) for value in values]


@BOTH
@settings(deadline=None)
@given(keys=st.lists(plain_keys, min_size=1, max_size=20), partitions=st.integers(1, 2**31 - 1))
def test_partitions(way: str, keys: list[str], partitions: int) -> None:
    values, rules = [b'{"id":"%b"}' % key.encode() for key in keys], Rules(partitions=partitions)
    found = scanned(values, [key.encode() for key in keys], rules)
    assert scan(way, rules, "lines", b"\n".join(values)) == found


# ---- A search for a body that the one in C accepts and the ordinary way reads otherwise


def check(rules: Rules, cut: str, body: bytes, most: int = ALL) -> bool:
    """Whether it was accepted; fails when that was wrong."""
    found = scan("c", rules, cut, body, most)
    if found is not None:
        assert agrees(found, scan("python", rules, cut, body, most)), (rules, cut, body)
        assert max(map(len, found[0])) <= rules.max_value_bytes
    return found is not None


def agrees(found: Scanned, plain: Scanned | None) -> bool:
    """Whether it is what the ordinary way finds, but for canonical forms that are left to that."""
    if plain is None or found[:3] != plain[:3] or (found[3] is None) != (plain[3] is None):
        return False
    pairs = zip(found[3] or (), plain[3] or (), strict=True)
    return all(one in (None, other) for one, other in pairs)


PIECES = [
    b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b" ", b"\t", b"\n", b"\r", b"0", b"-", b"1e5",
    b".5", b"true", b"null", b"fals", b"\\u00e9", b"\\ud83d", b"\\\\", b'\\"', b"\x00", b"\x1f",
    b"\x7f", "é€\U0001f600".encode(), b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xff",
    b'"id":', b'"a":', b'"":1,', b'"id":"7",', b"{}", b"[]", b"\xef\xbb\xbf", b"x" * 33, b"[[[[",
    b"]]]]",
]  # fmt: skip


def document(rng: random.Random, pointers: tuple[str, ...]) -> bytes:
    """A valid one with a key, most of the time."""
    inner = rng.choice([b"1", b'"t"', ORDINARY[0], rng.choice(YES), rng.choice(YES)])
    if rng.random() < 0.05:
        inner = rng.choice(NO)
    if rng.random() < 0.3:
        inner = b'{"n":[%b,{"m":%b}]}' % (inner, rng.choice(YES))
    if rng.random() < 0.3:
        inner = members(rng, 3, 4).encode()
    others = [
        b'"n":%b' % inner,
        b'"c":%b' % members(rng, 2, 5).encode(),
        b'"m" : {"id":[ 1.5e-3, true,null ]}',
        b'"z":"%b"' % (b"z" * 40),
    ]
    ways = [parse_pointer(pointer) for pointer in pointers if rng.random() > 0.03]
    return an_object(rng, ways, rng.sample(others, rng.randrange(5)))


def an_object(rng: random.Random, ways: list[tuple[str, ...]], members: list[bytes]) -> bytes:
    """With what the ways lead to, and these members."""
    for name in dict.fromkeys(way[0] for way in ways):
        further = [way[1:] for way in ways if way[0] == name]
        value = json.dumps(rng.choice(KEY_PARTS), ensure_ascii=False).encode()
        if further[0]:
            value = an_object(rng, further, [b'"id" : 3'] if rng.random() < 0.1 else [])
        members.append(b'"%b":%b' % (name.encode(), value))
        if rng.random() < 0.03:
            members.append(b'"%b":7' % name.encode())
    rng.shuffle(members)
    return b"{" + rng.choice([b",", b" , "]).join(members) + b"}"


KEY_PARTS: list[object] = ["7", "ключ é", 5, -12, 10**30, "x" * 20, 0, "a:b%", "c%", 1.5, True, [1]]


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


def search(seed: int, rounds: int) -> Counts:
    """Each body that was accepted has been compared with the ordinary way."""
    rng = random.Random(seed)
    tried, accepted = 0, 0
    for _ in range(rounds):
        rules = rng.choice(RULES)
        some = [document(rng, rules.pointers) for _ in range(rng.choice([1, 1, 2, 3, 6]))]
        most = rng.choice([ALL, ALL, ALL, len(some), len(some) - 1])
        for cut, body in (
            ("lines", b"\n".join(some) + rng.choice([b"", b"\n"])),
            ("elements", b"[" + b", ".join(some) + b"]"),
            ("one", some[0]),
        ):
            tried += 1
            accepted += check(rules, cut, mutated(rng, body), most)
    return Counts(tried, accepted, accepted)


@C_ALONE
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_accepted_that_the_ordinary_way_reads_otherwise(seed: int) -> None:
    tried, accepted, _ = search(seed, 3000)
    assert tried / 20 < accepted < tried / 2


@C_ALONE
@pytest.mark.parametrize("rules", [Rules(), Rules(()), Rules(("/a",), 3, 2)])
def test_the_same_of_what_the_minefield_says(rules: Rules) -> None:
    for text in YES + NO + BAD_UTF8:
        for cut, body, _ in bodies_of(text, b""):
            assert not (check(rules, cut, body) and text in BAD_UTF8)


# ---- C's own ways to go wrong: types, references and memory


@C_ALONE
def test_arguments() -> None:
    scanner = chosen.Scanner(ID_ALONE, 6, 64, 99, None)
    for wrong in ("{}", bytearray(b"{}"), memoryview(b"{}"), None):
        with pytest.raises(TypeError):
            scanner.one(wrong)
        with pytest.raises(TypeError):
            scanner.lines(wrong, 1)
    for arguments in ((b"{}", "1"), (b"{}",)):
        with pytest.raises(TypeError):
            scanner.lines(*arguments)
    assert scanner.lines(b'{"id":1}', 10**40) is not None
    for arguments in ((b"id", 6, 64, 99, None), (ID_ALONE, 6, 64, 99, "key"), (ID_ALONE, 6, 64),
                      (ID_ALONE, 6, 64, 99, KEY, PREFIX, [])):  # fmt: skip
        with pytest.raises(TypeError):
            chosen.Scanner(*arguments)
    for arguments in ((ID_ALONE, 0, 64, 99, None), (ID_ALONE, 2**31, 64, 99, None),
                      (ID_ALONE, 6, 64, 99, b"k" * 65)):  # fmt: skip
        with pytest.raises(ValueError, match=r"partitions|digest_key"):
            chosen.Scanner(*arguments)


@C_ALONE
@pytest.mark.parametrize(
    "pointers",
    [
        ((),), (b"id",), (("id",),), ((b"a",), (b"a",)), ((b"a",), (b"a", b"b")),
        ((b"a", b"b"), (b"a",)), ((b"a",), (b"b",), (b"c",), (b"d",), (b"e",)),
        (tuple(b"%d" % number for number in range(17)),),
    ],
)  # fmt: skip
def test_pointers_that_are_not_read(pointers: object) -> None:
    with pytest.raises(ValueError, match="no pointers"):
        chosen.Scanner(pointers, 6, 64, 99, None)
    is_of_five = isinstance(pointers, tuple) and len(pointers) == 5
    if not is_of_five:  # of parts of the key there are fewer
        with pytest.raises(ValueError, match="no pointers"):
            chosen.Scanner(ID_ALONE, 6, 64, 99, KEY, PREFIX, pointers, 99)


@C_ALONE
@pytest.mark.parametrize(
    ("key", "is_read"),
    [
        ((), True), (("/a/b", "/a/c", "/a/d", "/b"), True), (("/" + "/".join("a" * 16),), True),
        (("",), False), (("/a", "/a"), False), (("/a/b", "/a"), False), (("/a", "/a/b"), False),
        (("/a", "/b", "/c", "/d", "/e"), False), (("/" + "/".join("a" * 17),), False),
    ],
)  # fmt: skip
def test_topics_that_have_a_scanner(key: tuple[str, ...], is_read: bool) -> None:
    how = policy(key=key) if key else policy(keyless="spread")
    assert (scanner_for(how, topic_state(), 64, DIGESTER) is not None) is is_read


@C_ALONE
def test_scanner_leaks_neither_references_nor_memory() -> None:
    """Neither references nor memory, whatever the end."""
    pointers, body = ((b"i" + b"d",),), b"\n".join(ORDINARY)
    bodies = [body, body[:-1], body + b"\n{}", b'{"id":"', b"[" + b",".join(ORDINARY) + b"]"]
    ignore = ((b"ver" + b"sion",), (b"tags", b"0"))
    made = chosen.Scanner(pointers, 6, 64, EVENT_BYTES, KEY, PREFIX)
    forms = chosen.Scanner(pointers, 6, 64, EVENT_BYTES, KEY, PREFIX, ignore, EVENT_BYTES)
    left = chosen.Scanner(pointers, 6, 64, EVENT_BYTES, KEY, PREFIX, (), EVENT_BYTES - 1)

    def call() -> None:
        for scanner, one in product((made, forms, left), bodies):
            scanner.lines(one, ALL), scanner.elements(one, ALL), scanner.one(one)
            scanner.lines(one, 3)
        with pytest.raises(ValueError, match="longer"):
            chosen.Scanner(pointers, 6, 64, 99, KEY * 9)
        with pytest.raises(ValueError, match="no pointers"):
            chosen.Scanner(pointers, 6, 64, 99, KEY, PREFIX, (*ignore, ()), 99)
        chosen.Scanner(pointers, 6, 64, 99, None)

    counted = [*bodies, pointers, pointers[0][0], ignore, ignore[0][0], type(made), None]
    call()
    gc.collect()  # what others have left behind
    references = [*map(sys.getrefcount, counted)]
    assert blocks_kept(call) < CALLS
    assert [*map(sys.getrefcount, counted)][:-1] == references[:-1]
    assert abs(sys.getrefcount(None) - references[-1]) < 50  # others use it, too


if __name__ == "__main__":
    main(lambda seed: search(seed, 1000), "bodies")


@BOTH
def test_a_key_beyond_its_bound_is_left(way: str) -> None:
    """Also the parts of one together, with the colons between them."""
    for longest, more in (
        (b'{"id":"%s"}' % (b"k" * 4096), b'{"id":"%s"}' % (b"k" * 4097)),
        (b'{"id":%s}' % (b"7" * 4096), b'{"id":-%s}' % (b"7" * 4096)),
    ):
        assert scan(way, RULES[0], "one", longest) is not None
        assert scan(way, RULES[0], "one", more) is None
        assert scan(way, RULES[0], "lines", longest + b"\n" + more) is None
    three = Rules(("/id", "/x/id", "/x/a"))
    parts = b'{"id":"%s","x":{"id":"%s","a":1}}'
    assert scan(way, three, "one", parts % (b"k" * 2000, b"k" * 2093)) is not None
    assert scan(way, three, "one", parts % (b"k" * 2000, b"k" * 2094)) is None
