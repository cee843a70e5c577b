"""Digests: equal exactly when a consumer would see the same."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.suppression.digest import Digester

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
