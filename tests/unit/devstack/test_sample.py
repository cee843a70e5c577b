"""The effective configuration of `headgate dev`."""

from __future__ import annotations

import tomllib
from pathlib import Path

from headgate.config import load
from headgate.devstack.stack import effective_config, merge, to_toml, topics_to_create

ADDRESSES = {
    "clusters": {
        "main": {"bootstrap_servers": ["127.0.0.1:1"]},
        "main-backfill": {"bootstrap_servers": ["127.0.0.1:2"]},
    },
    "redis": {"url": "redis://127.0.0.1:3"},
    "blobs": {"url": "file:///srv/blobs"},
}
LADDERS = ("documents-notify", "documents-stored", "deals-split")


def test_sample_is_a_valid_configuration(tmp_path: Path) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text(to_toml(effective_config({}, ADDRESSES)))
    settings = load(file, {})
    assert settings.redis.quarantine_ms == 1000
    assert {policy.pattern: policy.suppress for policy in settings.topics} == {
        "orders": "off", "deals": "raw", "deals-coalesced": "raw", "documents": "off",
        "clicks": "off", **dict.fromkeys(LADDERS, "off"),
    }  # fmt: skip
    strategies = {strategy for policy in settings.topics for strategy in policy.oversize}
    assert strategies == {"reject", "compress", "notify", "claim-check", "split", "chunk"}
    assert [policy.pattern for policy in settings.topics if policy.coalesces] == ["deals-coalesced"]


def test_sample_topics_have_the_partitions_of_the_contract() -> None:
    topics = topics_to_create(effective_config({}, ADDRESSES))
    assert {topic.name: topic.partitions for topic in topics} == {
        "orders": 6, "deals": 12, "deals-coalesced": 6, "documents": 6, "clicks": 6,
        **dict.fromkeys(LADDERS, 6),
    }  # fmt: skip
    policies = {topic.name: topic.configs["cleanup.policy"] for topic in topics}
    assert policies["deals"] == "compact"
    assert policies["orders"] == "delete"


def test_overlay_adds_and_overrides_but_addresses_win() -> None:
    overlay = {
        "topics": {"deals": {"max_bytes": 10}, "audit.*": {}, "extra": {"kind": "state"}},
        "redis": {"url": "redis://elsewhere:1", "timeout_ms": 7},
    }
    config = effective_config(overlay, ADDRESSES)
    assert config["topics"]["deals"]["max_bytes"] == 10
    assert config["topics"]["deals"]["suppress"] == "raw"
    assert config["redis"] == {
        "quarantine_ms": 1000, "timeout_ms": 7, "url": "redis://127.0.0.1:3",
    }  # fmt: skip
    names = [topic.name for topic in topics_to_create(config)]
    sample = ["orders", "deals", "deals-coalesced", "documents", *LADDERS, "clicks"]
    assert names == [*sample, "extra"]


def test_topics_of_other_clusters_and_internal_ones_are_left_alone() -> None:
    overlay = {"topics": {"far": {"cluster": "other"}, "headgate.held.x": {}}}
    names = [topic.name for topic in topics_to_create(effective_config(overlay, ADDRESSES))]
    assert "far" not in names
    assert "headgate.held.x" not in names


def test_toml_survives_a_round_trip() -> None:
    config = {
        "top": 1,
        "topics": {"a.*": {"key": ["/a~1b", '/"q"']}, "plain": {}, "x": {"t": True, "f": 1.5}},
        "producers": {"me": {"quota_events_per_s": 5}},
    }
    assert tomllib.loads(to_toml(config)) == config


def test_merge_replaces_a_table_by_a_value_and_keeps_its_inputs() -> None:
    under = {"a": {"b": 1}, "c": {"d": 2}}
    assert merge(under, {"a": 5, "c": {"e": 3}}) == {"a": 5, "c": {"d": 2, "e": 3}}
    assert under == {"a": {"b": 1}, "c": {"d": 2}}
