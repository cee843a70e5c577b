"""Comparisons: forms where there are any, bytes elsewhere, and the two never meet."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable
from decimal import Decimal
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.content import Comparison, Digester, Fallback, canonical

JSON = b"application/json"
RULES = b"\x01" * 8


def comparison(*ignore: str, max_bytes: int = 1000) -> Comparison:
    return Comparison(RULES, ignore, max_bytes)


def test_equal_but_for_order_blanks_and_what_is_ignored() -> None:
    digest = comparison("/updated_at").digest
    one = digest(b'{"id":"d","n":1,"updated_at":1}', JSON)
    assert one == digest(b' {"n":1, "updated_at":[2], "id":"\\u0064"}', JSON)
    assert one[1] is None
    assert one[0] != digest(b'{"id":"d","n":2,"updated_at":1}', JSON)[0]
    assert one[0] != digest(b'{"id":"d","n":1,"updated_at":1}', b"application/x+json")[0]


def test_a_form_and_the_bytes_that_spell_it_never_meet() -> None:
    form = b'{"a":1}'
    by_form = comparison().digest(form, JSON)
    by_bytes = comparison(max_bytes=3).digest(form, JSON)
    assert (by_form[1], by_bytes[1]) == (None, Fallback.LARGE)
    assert by_form[0] != by_bytes[0]


@pytest.mark.parametrize(
    ("value", "content_type", "why"),
    [
        (b"[1]", b"text/plain", Fallback.NOT_JSON),
        (b"[1]", None, Fallback.NOT_JSON),
        (b"[1e999]", JSON, Fallback.NUMBER),
        (b'{"a":1,"a":1}', JSON, Fallback.DUPLICATE_NAME),
        (b'["\\udead"]', b"application/cloudevents+json", Fallback.SURROGATE),
    ],
)
def test_bytes_where_there_is_no_form(
    value: bytes, content_type: bytes | None, why: Fallback
) -> None:
    found = comparison().digest(value, content_type)
    assert found == (comparison().raw(value, content_type), why)


def test_a_tombstone_is_no_fallback_and_equals_no_value() -> None:
    digest, fallback = comparison().digest(None, JSON)
    assert fallback is None
    assert digest != comparison().digest(b"null", JSON)[0]


# Digests: equal exactly when a consumer would see the same.


POLICY = b"\x01" * 8


def test_equal_for_equal_values() -> None:
    one, other = Digester(POLICY), Digester(POLICY)
    assert one.digest(b'{"a":1}', b"application/json") == other.digest(
        b'{"a":1}', b"application/json"
    )
    assert len(one.digest(b"")) == 16


def test_tombstone_empty_value_type_and_policy_all_count() -> None:
    digester = Digester(POLICY)
    digests = [
        digester.digest(None),
        digester.digest(b""),
        digester.digest(b"tombstone"),
        digester.digest(b"x"),
        digester.digest(b"x", b"text/plain"),
        digester.digest(b"plainx", b"text/"),
        Digester(b"\x02" * 8).digest(b"x"),
        Digester(b"\x02" * 8).digest(None),
    ]
    for one, other in combinations(digests, 2):
        assert one != other


@given(
    st.lists(
        st.tuples(st.binary(max_size=8), st.none() | st.binary(min_size=1, max_size=4)), max_size=6
    )
)
def test_remembered_states_change_nothing(events: list[tuple[bytes, bytes | None]]) -> None:
    digester = Digester(POLICY)
    for value, content_type in events:
        expected = Digester(POLICY).digest(value, content_type)
        assert digester.digest(value, content_type) == expected


def test_memory_for_content_types_is_bounded() -> None:
    digester = Digester(POLICY)
    before = digester.digest(b"x", b"a/0")
    for number in range(1000):
        digester.digest(b"x", b"a/%d" % number)
    assert digester.digest(b"x", b"a/0") == before
    assert len(digester._states) <= 64


# Canonical forms: texts with different JSON values never share one; equal ones usually do.


# ---- an independent judge of "the same JSON value"


def exact(text: str) -> Any:
    """The value with every digit, every member (also of equal names, in order) and every type."""

    def members(pairs: list[tuple[str, Any]]) -> Any:
        return ("object", sorted(pairs, key=lambda pair: pair[0]))

    decoder = json.JSONDecoder(
        object_pairs_hook=members,
        parse_int=lambda digits: ("number", Decimal(digits)),
        parse_float=lambda digits: ("number", Decimal(digits)),
    )
    return decoder.decode(text)


def collide(one: str, other: str) -> bool:
    forms = canonical(one.encode()), canonical(other.encode())
    return not isinstance(forms[0], Fallback) and forms[0] == forms[1]


def nobody_collides(texts: Iterable[str]) -> None:
    for one, other in combinations(set(texts), 2):
        assert not collide(one, other) or exact(one) == exact(other), (one, other)


# ---- numbers, as hostile as they get


def spellings(double: float) -> list[str]:
    """Texts whose double is this one or a neighbour, and texts that lie between them."""
    near = [double, math.nextafter(double, math.inf), math.nextafter(double, -math.inf)]
    found = []
    for each in (one for one in near if math.isfinite(one)):
        found += [repr(each), f"{each:.14e}", f"{each:.15e}", f"{each:.16e}", f"{each:.17e}"]
        found += [f"{each:.15g}", f"{each:.16g}", f"{each:.17g}", f"{each:.25e}", f"{each:.16E}"]
        if 1e-20 < abs(each) < 1e25:
            whole = f"{Decimal(each):f}"
            found += [whole, whole + ("1" if "." in whole else ".0"), f"{each:.3f}", f"{each:.10f}"]
    zeros = [text.replace("e+", "e+0").replace("e-", "e-00") for text in found]
    return [*found, *zeros]


integers = st.one_of(
    st.integers(),
    st.integers(-(10**30), 10**30),
    st.builds(lambda power, step: 2**power + step, st.integers(50, 70), st.integers(-3, 3)),
    st.builds(lambda power, step: 10**power + step, st.integers(14, 30), st.integers(-3, 3)),
)
doubles = st.floats(allow_nan=False, allow_infinity=False)
decimals = st.from_regex(
    r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,22})?([eE][+-]?[0-9]{1,3})?", fullmatch=True
)
EXTREMES = [
    "0", "-0", "0.0", "-0.0", "0e0", "-0e5", "0E-400", "1e400", "1E400", "-1e400", "2e400", "null",
    "1e-400", "2e-400", "5e-324", "4e-324", "3e-324", "2e-324", "1", "1.0", "1e0", "10e-1", "true",
    "1E5", "100000", "100000.0", "0.1", "0.10", "0.1000000000000000055", "1e9999999", "false",
    "9007199254740992", "9007199254740993", "9007199254740993.0", "9.007199254740993",
    "9.007199254740992", "18446744073709551615", "18446744073709551616", "18446744073709551617",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1.7976931348623157e308",
    "1.7976931348623159e308", "0." + "0" * 330 + "1", "0." + "0" * 331 + "1", "1" + "0" * 400,
    '"1"', '"1.0"', "[1]", "{}", "[]", '""', "1e16", "10000000000000000", "10000000000000000.0",
]  # fmt: skip


def test_extreme_numbers_never_collide() -> None:
    nobody_collides(EXTREMES)


@given(doubles)
def test_the_neighbours_of_a_double_never_collide(double: float) -> None:
    nobody_collides(spellings(double))


@given(integers, st.sampled_from(["", ".0", "e0", "E+1", ".5", "e-1"]))
def test_long_integers_never_collide(integer: int, tail: str) -> None:
    near = [integer + step for step in (-1, 0, 1)]
    nobody_collides([*map(str, near), *(f"{each}{tail}" for each in near)])


@given(decimals, st.integers(0, 9), st.integers(0, 40))
def test_a_changed_digit_is_a_change(number: str, digit: int, place: int) -> None:
    places = [at for at, sign in enumerate(number) if sign.isdigit()]
    at = places[place % len(places)]
    other = number[:at] + str(digit) + number[at + 1 :]
    try:
        json.loads(other)
    except ValueError:
        return  # a leading zero
    nobody_collides([number, other, f"-{number}".replace("--", "")])


# ---- names


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "\\u0061", 'c\\"']), st.integers(0, 2))),
    st.lists(st.tuples(st.sampled_from(["a", "b", "\\u0061", 'c\\"']), st.integers(0, 2))),
)
def test_objects_with_equal_names_never_collide(
    one: list[tuple[str, int]], other: list[tuple[str, int]]
) -> None:
    nobody_collides(
        "{" + ",".join(f'"{name}":{value}' for name, value in each) + "}" for each in (one, other)
    )


# ---- values, spelled twice


safe_numbers = st.one_of(
    st.integers(-(10**18) + 1, 10**18 - 1),
    st.decimals(-(10**6), 10**6, places=4).map(lambda d: float(f"{d:.4f}")).filter(bool),
)
texts = st.text(st.characters(codec="utf-8"), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | safe_numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)


def spell(value: Any, chance: random.Random) -> str:
    """One of the many texts of a value: blanks, order of names and escapes are by chance."""

    def blank() -> str:
        return chance.choice(["", "", " ", "\n\t", "\r "])

    def text(string: str) -> str:
        signs = []
        for sign in string:
            code = ord(sign)
            if code < 0x20 or sign in '"\\' or chance.random() < 0.3:
                units = sign.encode("utf-16-be")
                pairs = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
                case = chance.choice([str.upper, str.lower])
                signs.append("".join(f"\\u{case(pair)}" for pair in pairs))
            else:
                signs.append(sign)
        return '"' + "".join(signs) + '"'

    def walk(one: Any) -> str:
        if isinstance(one, dict):
            members = list(one.items())
            chance.shuffle(members)
            inner = (f"{blank()}{text(k)}{blank()}:{blank()}{walk(v)}{blank()}" for k, v in members)
            return "{" + ",".join(inner) + blank() + "}"
        if isinstance(one, list):
            return "[" + ",".join(f"{blank()}{walk(each)}{blank()}" for each in one) + "]"
        return text(one) if isinstance(one, str) else json.dumps(one)

    return blank() + walk(value) + blank()


@given(values, st.randoms(use_true_random=False))
def test_order_blanks_and_escapes_do_not_count(value: Any, chance: random.Random) -> None:
    one, other = spell(value, chance), spell(value, chance)
    assert collide(one, other), (one, other)


@given(values, values, st.randoms(use_true_random=False))
def test_different_values_never_collide(one: Any, other: Any, chance: random.Random) -> None:
    nobody_collides([spell(one, chance), spell(other, chance)])


# ---- ignored members


def form(text: str, *pointers: str) -> bytes | Fallback:
    return canonical(text.encode(), [tuple(pointer.split("/")[1:]) for pointer in pointers])


def test_what_is_ignored_does_not_count() -> None:
    one = '{"updated_at":"2026-01-01 \\"x\\"","id":1,"meta":{"n":{"a":"b"},"keep":[1]}}'
    other = '{"meta":{"keep":[1]},"id":1,"updated_at":{"at":[7,"8"]}}'
    assert form(one, "/updated_at", "/meta/n") == form(other, "/updated_at", "/meta/n")
    assert form(one, "/updated_at") != form(other, "/updated_at")
    assert form('{"a":1}', "/b", "/a/b/c", "/0") == form('{ "a": 1 }')
    assert form('{"a":{"b":1,"c":2}}', "/a/b", "/a") == form("{}")


def test_an_ignored_element_keeps_its_place() -> None:
    assert form("[1,2,3]", "/0", "/1") == form('["x",{"y":0},3]', "/0", "/1")
    assert form("[1,2,3]", "/0") != form("[2,3]", "/0")
    assert form("[1,2]", "/2", "/01", "/-") == form("[1,2]")


@pytest.mark.parametrize("pointer", ["/a", "/b"])
def test_equal_names_are_noticed_beside_and_inside_of_what_is_ignored(pointer: str) -> None:
    assert form('{"a":{"x":1,"x":2},"b":1}', pointer) is Fallback.DUPLICATE_NAME
    assert form('{"a":1,"b":1,"a":1}', pointer) is Fallback.DUPLICATE_NAME


# ---- when bytes are compared


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1234567890123456789", Fallback.NUMBER),
        ("-0", Fallback.NUMBER),
        ("[1e400]", Fallback.NUMBER),
        ("[0.12345678901234567]", Fallback.NUMBER),
        ("[1e201]", Fallback.NUMBER),
        ('{"a":1,"\\u0061":1}', Fallback.DUPLICATE_NAME),
        ('["\\ud800"]', Fallback.SURROGATE),
        ('{"\\uDC00":1}', Fallback.SURROGATE),
        ("[" * 300 + "]" * 300, Fallback.DEEP),
        ("[" * 2000 + "]" * 2000, Fallback.DEEP),
    ],
)
def test_bytes_are_compared_where_parsing_forgets(text: str, why: Fallback) -> None:
    assert canonical(text.encode()) is why


@pytest.mark.parametrize(
    "text",
    [
        "123456789012345678",
        "0.1",
        "-12.50",
        "1E5",
        "0.3333333333333333",
        "-122.419415",
        '"12345678901234567890 1e400 -0 \\" 1e999"',
        '{"1e400":"\\\\","-0":"\\\\\\""}',
    ],
)
def test_what_parsing_keeps_has_a_form(text: str) -> None:
    assert not isinstance(canonical(text.encode()), Fallback)
