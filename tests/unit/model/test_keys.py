"""Kafka's partition rule, JSON Pointers and joined keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.ingest.records import partition_of
from headgate.model.keys import (
    BadPointer,
    KeyRule,
    join_parts,
    murmur2,
    parse_pointer,
    partition_for,
)
from support.gateway.fakes import route, topic_state

# From org.apache.kafka.common.utils.UtilsTest.testMurmur2.
JAVA_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), JAVA_VECTORS.items())
def test_murmur2_equals_the_java_clients(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_a_partition_is_in_range_and_the_cache_agrees(key: bytes, partitions: int) -> None:
    partition = partition_for(key, partitions)
    assert 0 <= partition < partitions
    cached = route(topic_state(partitions=partitions))
    assert [partition_of(cached, key), partition_of(cached, key)] == [partition, partition]


@pytest.mark.parametrize(
    ("pointer", "tokens"),
    [
        ("", ()),
        ("/", ("",)),
        ("/a/b", ("a", "b")),
        ("/a~1b", ("a/b",)),
        ("/m~0n", ("m~n",)),
        ("/~01", ("~1",)),  # RFC 6901 section 4: never "/"
        ("/a//b", ("a", "", "b")),
        ("/0", ("0",)),
    ],
)
def test_pointers_follow_rfc_6901(pointer: str, tokens: tuple[str, ...]) -> None:
    assert parse_pointer(pointer) == tokens


@pytest.mark.parametrize("pointer", ["a", "#/a", "/a~", "/a~2", "/~~0"])
def test_bad_pointers_are_refused(pointer: str) -> None:
    with pytest.raises(BadPointer):
        parse_pointer(pointer)


@given(st.lists(st.text(), max_size=4))
def test_any_token_can_be_pointed_to(tokens: list[str]) -> None:
    escaped = "".join("/" + one.replace("~", "~0").replace("/", "~1") for one in tokens)
    assert KeyRule.parse([escaped]).pointers == (tuple(tokens),)


def test_one_part_is_taken_as_it_is_and_several_are_percent_encoded() -> None:
    assert join_parts([b"a:b%"]) == b"a:b%"
    assert join_parts([b"a:b", b"c%d"]) == b"a%3Ab:c%25d"


parts = st.lists(st.text(alphabet="a:%3A25").map(str.encode), min_size=2, max_size=4)


@given(parts, parts)
def test_joined_keys_are_equal_only_if_their_parts_are(
    one: list[bytes], other: list[bytes]
) -> None:
    assert (join_parts(one) == join_parts(other)) == (one == other)
