"""Which policy a topic has, and which patterns cannot be told apart."""

import re
from dataclasses import replace
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.policy import PolicyTable, TopicPolicy, fingerprint
from headgate.model.schema import schema_of
from headgate.model.topics import Globs, is_glob, literal_prefix, overlap, ties


def table(*patterns: str) -> PolicyTable:
    return PolicyTable([TopicPolicy(pattern, cluster="main") for pattern in patterns])


def matched(policies: PolicyTable, topic: str) -> str | None:
    policy = policies.match(topic)
    return policy.pattern if policy else None


def test_exact_name_goes_before_every_glob() -> None:
    policies = table("orders.*", "orders.eu", "*")
    assert matched(policies, "orders.eu") == "orders.eu"


def test_longest_literal_prefix_goes_first() -> None:
    policies = table("*", "orders.*", "orders.eu.*")
    assert matched(policies, "orders.eu.new") == "orders.eu.*"
    assert matched(policies, "orders.us") == "orders.*"
    assert matched(policies, "clicks") == "*"


def test_order_of_the_file_does_not_matter() -> None:
    assert matched(table("orders.eu.*", "orders.*"), "orders.eu.x") == "orders.eu.*"
    assert matched(table("orders.*", "orders.eu.*"), "orders.eu.x") == "orders.eu.*"


def test_unmatched_topic_has_no_policy() -> None:
    assert matched(table("orders.*"), "orders") is None
    assert matched(table("orders"), "orders2") is None
    assert matched(table("a?c"), "ac") is None


def test_a_dot_is_a_dot() -> None:
    assert matched(table("a.b*"), "aXb1") is None


def test_globs_never_match_internal_topics() -> None:
    policies = table("*", "head*")
    assert matched(policies, "__consumer_offsets") is None
    assert matched(policies, "headgate.held.deals") is None
    assert matched(policies, "headgates") == "head*"


def test_a_remembered_answer_stays_right_beyond_the_bound() -> None:
    policies = table("orders.*")
    for number in range(10_000):
        assert matched(policies, f"orders.{number}") == "orders.*"
        assert matched(policies, f"clicks.{number}") is None
    assert policies._first_glob.cache_info().currsize <= 4096


def test_tied_globs_refuse() -> None:
    with pytest.raises(ValueError, match="tie"):
        table("orders.*", "orders.?*")


@pytest.mark.parametrize(
    ("one", "other", "tied"),
    [
        ("orders.*", "orders.?*", True),
        ("*.eu", "*.us", False),
        ("*.eu", "*eu", True),
        ("*a", "b*", False),  # "b" is the longer prefix: no tie
        ("*a", "*b*", True),
        ("a?", "a??", False),
        ("a*", "a*", False),  # one section of TOML cannot occur twice
        ("a*b", "a*c", False),
        ("a*b?", "a*cb", False),
        ("a*b?", "a*bc", True),
    ],
)
def test_ties(one: str, other: str, tied: bool) -> None:
    assert bool(list(ties([one, other]))) is tied


globs = st.text(alphabet="ab*?", min_size=0, max_size=5)


@given(globs, globs)
def test_overlap_equals_trying_every_name(one: str, other: str) -> None:
    # 6 literal characters: long enough, as a shortest common name is no longer than both globs
    first, second = Globs((one,)), Globs((other,))
    names = ("".join(letters) for size in range(11) for letters in product("ab", repeat=size))
    if overlap(one, other):
        assert any(first.match(name) and second.match(name) for name in names)
    else:
        short = ("".join(letters) for size in range(7) for letters in product("ab", repeat=size))
        assert not any(first.match(name) and second.match(name) for name in short)


@given(st.sets(globs, max_size=8))
def test_ties_are_all_pairs_with_one_prefix_that_overlap(patterns: set[str]) -> None:
    wild = sorted(filter(is_glob, patterns))
    expected = [
        (one, other)
        for one, other in combinations(wild, 2)
        if literal_prefix(one) == literal_prefix(other) and overlap(one, other)
    ]
    assert sorted(ties(patterns)) == expected


@given(st.lists(globs, max_size=4), st.text(alphabet="ab", max_size=5))
def test_several_globs_match_what_one_of_them_does(patterns: list[str], name: str) -> None:
    assert Globs(patterns).match(name) is any(Globs((one,)).match(name) for one in patterns)


@given(globs, globs)
def test_overlap_is_symmetric(one: str, other: str) -> None:
    assert overlap(one, other) == overlap(other, one)


def test_fingerprint_follows_what_decides_sameness_only() -> None:
    policy = TopicPolicy("deals", cluster="main", key=("/id",), suppress="raw")
    assert re.fullmatch(r"[0-9a-f]{16}", fingerprint(policy))
    assert fingerprint(replace(policy, max_bytes=5, redis_loss="refuse")) == fingerprint(policy)
    assert fingerprint(replace(policy, key=("/nr",))) != fingerprint(policy)
    assert fingerprint(replace(policy, suppress="off")) != fingerprint(policy)
    assert fingerprint(replace(policy, schema_file="x", schema=schema_of(b"{}"))) == fingerprint(
        policy
    )
    canonical = replace(policy, suppress="canonical", ignore=("/a", "/b"))
    assert fingerprint(canonical) != fingerprint(policy)
    assert fingerprint(replace(canonical, ignore=("/b", "/a"))) == fingerprint(canonical)
    assert fingerprint(replace(canonical, ignore=("/a",))) != fingerprint(canonical)


def test_fingerprint_is_the_same_in_every_process() -> None:
    # a figure of its own, so that an upgrade that changes it, and so forgets all states, is seen
    assert fingerprint(TopicPolicy("deals", key=("/id",), suppress="raw")) == "a407fca2830e51ba"
