"""Names, fingerprints, keys and what is remembered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.idempotency.rules import (
    FULL_BYTES,
    event_fingerprint,
    names_of_cloudevents,
    names_of_ids,
    names_of_keys,
    pack_outcomes,
    read_key,
    request_fingerprint,
    unpack_outcomes,
)
from headgate.model.outcome import Outcome, OutcomeName, Refused

TOPIC, OTHER_TOPIC = b"\1" * 16, b"\2" * 16


@pytest.mark.parametrize(
    ("header", "key"),
    [
        (b"abc", b"abc"),
        (b' "abc" ', b"abc"),  # the IETF draft's structured string: the same key
        (b'"a\\"b\\\\c"', b'a"b\\c'),
        (b"x" * 255, b"x" * 255),
        (b'"', b'"'),
    ],
)
def test_keys_are_bare_or_quoted(header: bytes, key: bytes) -> None:
    assert read_key(header) == key


@pytest.mark.parametrize("header", [b"", b'""', b"x" * 256, b"a b", b"\xc3\xa4", b"a\tb", b"a\0"])
def test_other_keys_are_malformed(header: bytes) -> None:
    with pytest.raises(Refused) as refused:
        read_key(header)
    assert refused.value.failure.reason == "malformed"


def test_a_name_has_a_scope() -> None:
    names = [
        names_of_keys("h", TOPIC, "shop").of(b"k"),
        names_of_keys("h", OTHER_TOPIC, "shop").of(b"k"),
        names_of_keys("h", TOPIC, "sho").of(b"pk"),
        names_of_keys("i", TOPIC, "shop").of(b"k"),
        names_of_ids("h", TOPIC, "shop").of(b"k"),
        names_of_cloudevents("h", TOPIC, "shop").of(b"k"),
    ]
    assert len(set(names)) == len(names)
    assert names_of_keys("h", TOPIC, "shop").of(b"k") == names[0]


def test_names_and_fingerprints_are_those_of_earlier_versions() -> None:
    """Gateways of two versions share a Redis, and it remembers for a day."""
    assert names_of_keys("h", TOPIC, "shop").of(b"k").hex() == (
        "683a6f6e63653ad7ab4f114920d123a18d0d3f8d08ae34"
    )
    assert names_of_ids("h", TOPIC, "shöp").of("ké".encode()).hex() == (
        "683a6f6e63653aeb47edb56bd33ce7489e94d798eecab5"
    )
    assert names_of_cloudevents("h", TOPIC, "/shop").of(b"k").hex() == (
        "683a6f6e63653a75adefbf1011217514edf8395243d417"
    )
    headers = {b"content-type": b"application/json", b"ce-id": b"1", b"host": b"x"}
    request = request_fingerprint(b"events", headers, b"{}")
    assert request.hex() == "de05996cf66ee83143b0128230a30519"
    event = event_fingerprint(b"k", b"v" * 700, b"application/json")
    assert event.hex() == "8a95f900350c04ea171a38984071f13a"
    assert event_fingerprint(None, None, None).hex() == "161ffdc45be96a5b214ddce9249f354d"
    assert event_fingerprint(b"", b"", None).hex() == "929b9d73af72d9a3ca333d3027eaaa16"


def test_what_changes_the_records_changes_the_fingerprint_and_the_rest_does_not() -> None:
    base = {b"content-type": b"application/json", b"traceparent": b"1", b"headgate-key": b"k"}
    first = request_fingerprint(b"events", base, b"{}")
    for header in (b"prefer", b"traceparent", b"x-request-id", b"user-agent", b"idempotency-key"):
        assert request_fingerprint(b"events", {**base, header: b"x"}, b"{}") == first
    for header in (b"content-type", b"headgate-key", b"headgate-force", b"headgate-header-a",
                   b"ce-type", b"headgate-event-id", b"headgate-batch"):  # fmt: skip
        assert request_fingerprint(b"events", {**base, header: b"x"}, b"{}") != first
    assert request_fingerprint(b"events", base, b"{ }") != first
    assert request_fingerprint(b"v2/3", base, b"{}") != first
    assert request_fingerprint(b"events", dict(reversed(base.items())), b"{}") == first


@given(
    st.lists(
        st.tuples(*[st.none() | st.sampled_from([b"", b"a", b"ab", b"b"])] * 3), unique=True,
        max_size=20,
    )
)  # fmt: skip
def test_no_two_events_share_a_fingerprint(events: list) -> None:  # type: ignore[type-arg]
    assert len({event_fingerprint(*event) for event in events}) == len(events)


KEYS = st.none() | st.binary(max_size=5)
OUTCOMES = st.builds(
    Outcome,
    st.sampled_from([OutcomeName.PUBLISHED, OutcomeName.UNCHANGED, OutcomeName.DUPLICATE]),
    st.integers(-1, 1000),
    st.integers(-1, 2**53),
    KEYS,
    st.none() | st.text(max_size=9),
    st.none(),
    st.integers(0, 2),
    oversize=st.none(),  # a duplicate says where it is, not what it became
)


@given(st.dictionaries(st.integers(0, 10**6), OUTCOMES, max_size=8))
def test_what_is_remembered_answers_as_duplicates(outcomes: dict[int, Outcome]) -> None:
    answered = unpack_outcomes(pack_outcomes(outcomes.items()))
    assert answered == {
        index: one.of(OutcomeName.DUPLICATE, one.event_id) for index, one in outcomes.items()
    }


def test_a_large_answer_is_remembered_as_places() -> None:
    outcome = Outcome(OutcomeName.PUBLISHED, 3, 10**9, b"k" * 100, "id" * 18, None, 1)
    packed = pack_outcomes((index, outcome) for index in range(10_000))
    assert len(packed) < FULL_BYTES
    assert unpack_outcomes(packed)[9_999] == Outcome(OutcomeName.DUPLICATE, 3, 10**9)
    few = pack_outcomes((index, outcome) for index in range(1_000))
    assert unpack_outcomes(few)[999].key == b"k" * 100


def test_empty_bytes_unpack_to_no_outcomes() -> None:
    assert unpack_outcomes(b"") == {}
