"""Comparisons: forms where there are any, bytes elsewhere, and the two never meet."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.content import Comparison, Digester
from headgate.core.formats.canonical import Fallback

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
