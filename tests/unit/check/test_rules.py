"""What `headgate check` says of a configuration, of topics and of Redis, without asking them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from headgate.audits.facts import facts_topic
from headgate.check.local import judge_settings
from headgate.check.rules import (
    Finding,
    Level,
    folded,
    judge_facts,
    judge_missing,
    judge_redis,
    judge_topic,
    judge_unmatched,
)
from headgate.config import Settings, load_with_origins
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.topics import TopicState

CLUSTER = '[clusters.main]\nbootstrap_servers = "a:1"\n'
REDIS = '[redis]\nurl = "redis://r:1"\n'
SOUND = TopicState(
    "deals", "main", b"i" * 16, 6, replication_factor=3, min_insync_replicas=2,
    cleanup_policy="compact",
)  # fmt: skip


def judged(folder: Path, text: str, environ: dict[str, str] | None = None) -> list[Finding]:
    return [one for one in told(folder, text, environ) if one.level is not Level.OK]


def told(folder: Path, text: str, environ: dict[str, str] | None = None) -> list[Finding]:
    file = folder / "headgate.toml"
    file.write_text(text)
    return list(judge_settings(*load_with_origins(file, environ or {})))


def settings(folder: Path, text: str) -> Settings:
    file = folder / "headgate.toml"
    file.write_text(text)
    return load_with_origins(file, {}).settings


def texts(findings: Iterable[Finding]) -> str:
    found = list(findings)
    assert all(each.fix or each.level is Level.OK for each in found), (
        "every warning says what to do"
    )
    return "\n".join(f"{each.level} {each.subject}: {each.text}" for each in found)


def test_a_sound_configuration_has_no_warnings(tmp_path: Path) -> None:
    text = CLUSTER + REDIS + '[topics.deals]\nkind = "state"\nsuppress = "raw"\nkey = "/id"\n'
    assert judged(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "subject", "said"),
    [
        ("", "topics", "none"),
        (
            '[http]\nhost = "0.0.0.0"\n[topics.a]\n',
            "auth.mode",
            "every client that can connect may post",
        ),
        ('[http]\nhost = "0.0.0.0"\n[topics.a]\n', "auth.mode", "Web pages"),
        ('[http]\nhost = "0.0.0.0"\n[auth]\nmode = "token"\n[topics.a]\n', "http", "clear text"),
        ("[http]\nworkers = 64\n[topics.a]\n", "admission.in_flight_max_bytes", "64 worker"),
        ("[http]\nworkers = 64\n[topics.a]\n", "admission.in_flight_max_events", "64 worker"),
        ("[topics.a]\nredis_loss = 'refuse'\n", "topics.a.redis_loss", "only concerns"),
        ("[topics.a]\nmax_bytes = 99999999\n", "topics.a.max_bytes", "http.body_max_bytes"),
        (REDIS + "[topics.a]\nsuppress = 'raw'\n", "topics.a.suppress", "repeats"),
        (
            REDIS + "quarantine_ms = 1000\n[topics.a]\nsuppress = 'raw'\nkind = 'state'\n",
            "redis.quarantine_ms",
            "2 x delivery_timeout_ms",
        ),
        ("[topics.a]\n[auth]\nmode = 'token'\n", "producers", "401"),
        (
            "[topics.a]\n[auth]\nmode = 'token'\n[producers.p]\ntopics = ['a']\n",
            "producers.p.token_sha256",
            "never",
        ),
        ("[topics.a]\n[auth]\nmode = 'token'\n[producers.p]\n", "producers.p.topics", "no topic"),
        ("[topics.a]\n[producers.p]\ntopics = ['b*']\n", "producers.p.topics", "matches nothing"),
    ],
)
def test_what_will_bite_is_said(tmp_path: Path, text: str, subject: str, said: str) -> None:
    found = judged(tmp_path, CLUSTER + text)
    assert any(each.subject == subject and said in each.text for each in found), found
    assert all(each.level is Level.WARN for each in found)


@pytest.mark.parametrize(
    ("codec", "is_told"),
    [("zstd", True), ("lz4", True), ("snappy", True), ("gzip", False), ("none", False)],
)
def test_what_consumers_must_be_able_to_read_is_told(
    tmp_path: Path, codec: str, is_told: bool
) -> None:
    found = told(tmp_path, CLUSTER + f'compression = "{codec}"\n[topics.a]\n')
    notes = [one for one in found if one.level is Level.OK and "every consumer" in one.text]
    assert [one.subject for one in notes] == ["clusters.main.compression"] * is_told


def test_the_compress_rung_writes_zstd_whatever_the_cluster_does(tmp_path: Path) -> None:
    text = 'compression = "none"\n[topics.a]\noversize = ["compress", "reject"]\n'
    [note] = [one for one in told(tmp_path, CLUSTER + text) if "every consumer" in one.text]
    assert note.subject == "topics.a.oversize"


def test_only_a_password_in_the_configuration_itself_is_warned_of(tmp_path: Path) -> None:
    sasl = 'security_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\nsasl_username = "u"\n'
    topic = "[topics.a]\n"
    written = judged(tmp_path, CLUSTER + sasl + 'sasl_password = "p"\n' + topic)
    assert "clusters.main.sasl_password" in texts(written)
    (tmp_path / "password").write_text("p")
    (tmp_path / "password").chmod(0o600)
    by_file = CLUSTER + sasl + f'sasl_password_file = "{tmp_path / "password"}"\n' + topic
    assert judged(tmp_path, by_file) == []
    variable = {"HEADGATE_CLUSTERS__MAIN__SASL_PASSWORD": "p"}
    assert judged(tmp_path, CLUSTER + sasl + topic, variable) == []


@pytest.mark.parametrize("url", ["rediss://u:p@r.example", "unix:///x?password=p"])
def test_so_is_one_in_the_url_of_redis(tmp_path: Path, url: str) -> None:
    topic = "[topics.a]\n"
    written = judged(tmp_path, CLUSTER + f'[redis]\nurl = "{url}"\n' + topic)
    assert "redis.url" in texts(written)
    assert "p@" not in texts(written)
    (tmp_path / "url").write_text(url)
    (tmp_path / "url").chmod(0o600)
    by_file = CLUSTER + f'[redis]\nurl_file = "{tmp_path / "url"}"\n' + topic
    assert judged(tmp_path, by_file) == []
    assert judged(tmp_path, CLUSTER + topic, {"HEADGATE_REDIS__URL": url}) == []
    without = CLUSTER + '[redis]\nurl = "rediss://u@r.example"\n' + topic
    assert judged(tmp_path, without) == []


@pytest.mark.parametrize(
    ("url", "is_told"),
    [("redis://:p@r.example", True), ("redis://:p@127.0.0.1", False), ("redis://r.example", False)],
)
def test_a_password_that_redis_gets_in_clear_text(tmp_path: Path, url: str, is_told: bool) -> None:
    found = judged(tmp_path, CLUSTER + "[topics.a]\n", {"HEADGATE_REDIS__URL": url})
    assert ("clear text" in texts(found)) is is_told


STATE = CLUSTER + REDIS + '[topics.deals]\nkind = "state"\nsuppress = "raw"\nkey = "/id"\n'


def test_a_sound_topic_has_no_warnings(tmp_path: Path) -> None:
    found = settings(tmp_path, STATE)
    assert list(judge_topic(SOUND, found.topics[0], found)) == []


@pytest.mark.parametrize(
    ("changed", "level", "said"),
    [
        ({"replication_factor": 1, "min_insync_replicas": 1}, "warn", "replication factor 1"),
        ({"min_insync_replicas": 1}, "warn", "one broker only"),
        ({"min_insync_replicas": 3}, "warn", "one broker down"),
        ({"min_insync_replicas": 4}, "error", "every write is refused"),
        ({"unclean_leader_election": True}, "warn", "unclean leader election"),
        ({"cleanup_policy": "delete"}, "warn", "states older than retention vanish"),
        ({"cleanup_policy": "compact,delete"}, "warn", "states older than retention vanish"),
        ({"timestamp_type": "LogAppendTime"}, "warn", "Kafka overwrites"),
        ({"compression_type": "gzip"}, "warn", "compresses each again"),
        (
            {"cleanup_policy": "compact,delete", "retention_ms": 3_600_000},
            "warn",
            "not longer than redis.max_suppress_age_ms",
        ),
    ],
)
def test_what_a_topic_will_bite_with(
    tmp_path: Path, changed: dict[str, Any], level: str, said: str
) -> None:
    found = settings(tmp_path, STATE)
    judged = list(judge_topic(SOUND._replace(**changed), found.topics[0], found))
    assert any(each.level == level and said in each.text for each in judged), judged
    texts(judged)


def test_the_fix_for_one_replica_is_for_a_topic_that_exists(tmp_path: Path) -> None:
    found = settings(tmp_path, STATE)
    changed = SOUND._replace(replication_factor=1, min_insync_replicas=1)
    fixes = " ".join(each.fix for each in judge_topic(changed, found.topics[0], found))
    assert "kafka-reassign-partitions.sh" in fixes


def test_retention_that_kafka_does_not_read_is_no_danger(tmp_path: Path) -> None:
    found = settings(tmp_path, STATE)
    kept = SOUND._replace(cleanup_policy="compact", retention_ms=1000)
    assert list(judge_topic(kept, found.topics[0], found)) == []


def test_the_age_from_which_events_are_compacted_is_said(tmp_path: Path) -> None:
    found = settings(tmp_path, CLUSTER + '[topics.deals]\nkey = "/id"\n')
    lagging = SOUND._replace(cleanup_policy="compact", min_compaction_lag_ms=7_200_000)
    assert "removed from 7200000 ms on" in texts(list(judge_topic(lagging, found.topics[0], found)))


@pytest.mark.parametrize("kept", ["producer", "zstd"])
def test_our_own_codec_is_not_recompressed(tmp_path: Path, kept: str) -> None:
    found = settings(tmp_path, STATE)
    assert not list(judge_topic(SOUND._replace(compression_type=kept), found.topics[0], found))


def test_kafkas_word_for_no_compression_is_known(tmp_path: Path) -> None:
    text = STATE.replace('"a:1"\n', '"a:1"\ncompression = "none"\n', 1)
    found = settings(tmp_path, text)
    same = SOUND._replace(compression_type="uncompressed")
    assert not list(judge_topic(same, found.topics[0], found))


def test_retention_for_ever_is_longer_than_any_age(tmp_path: Path) -> None:
    found = settings(tmp_path, STATE)
    state = SOUND._replace(cleanup_policy="delete", retention_ms=-1)
    assert "retention.ms" not in texts(judge_topic(state, found.topics[0], found))


def test_a_compacted_event_topic_is_warned_of_and_unkeyed_ones_are_errors(tmp_path: Path) -> None:
    found = settings(tmp_path, CLUSTER + '[topics.deals]\nkeyless = "spread"\nmax_bytes = 5\n')
    said = texts(judge_topic(SOUND, found.topics[0], found))
    assert "warn topic deals: cleanup.policy=compact on kind" in said
    assert 'error topic deals: compacted, and keyless = "spread"' in said


def test_rungs_that_a_topic_cannot_have_are_said(tmp_path: Path) -> None:
    found = settings(tmp_path, CLUSTER + '[topics.a]\noversize = ["compress", "chunk"]\n')
    compacted = SOUND._replace(cleanup_policy="compact,delete", compression_type="gzip")
    said = texts(judge_topic(compacted, found.topics[0], found))
    assert "error topic deals: cleanup.policy=compact,delete and chunk" in said
    assert "compression.type=gzip and compress" in said
    plain = SOUND._replace(cleanup_policy="delete")
    assert "oversize" not in texts(judge_topic(plain, found.topics[0], found))


def test_a_limit_above_kafkas_own_is_warned_of(tmp_path: Path) -> None:
    found = settings(tmp_path, CLUSTER + "[topics.deals]\nmax_bytes = 2000000\n")
    state = SOUND._replace(cleanup_policy="delete")
    assert "max.message.bytes=1048588" in texts(judge_topic(state, found.topics[0], found))


def test_topics_without_policy_and_policies_without_topic(tmp_path: Path) -> None:
    found = settings(tmp_path, CLUSTER + '[topics.deals]\n[topics."orders.*"]\n[topics."x*"]\n')
    table = PolicyTable(found.topics)
    names = ["orders.eu", "stray", "__consumer_offsets", "headgate.held.deals"]
    (stray,) = judge_unmatched(names, table)
    assert stray.level is Level.OK, "a topic of another program is no mistake"
    assert "stray" in stray.text
    assert "orders" not in stray.text
    assert "__" not in stray.text
    missing = texts(judge_missing(found, {"orders.eu"}))
    assert "topics.deals: Kafka (cluster main) has no such topic" in missing
    assert 'topics."x*": matches no topic' in missing
    assert "orders" not in missing


def test_many_topics_without_policy_are_one_short_line() -> None:
    (finding,) = judge_unmatched([f"t{number}" for number in range(100)], PolicyTable([]))
    assert "and 90 more" in finding.text


CLEAN = {"role": "master", "aof_enabled": 0, "maxmemory_policy": "noeviction"}
CLEAN_CONFIG = {"maxmemory-policy": "noeviction", "save": ""}


def test_a_sound_redis_has_no_warnings() -> None:
    assert list(judge_redis(CLEAN, CLEAN_CONFIG)) == []
    for used, limit in ((89, 100), (10**9, 0)):
        memory = {"used_memory": used, "maxmemory": limit, "maxmemory_policy": "noeviction"}
        assert list(judge_redis(CLEAN | memory, CLEAN_CONFIG)) == []


@pytest.mark.parametrize(
    ("info", "config", "said"),
    [
        ({}, {"maxmemory-policy": "allkeys-lru", "save": ""}, "warn redis: maxmemory-policy all"),
        ({"aof_enabled": 1}, CLEAN_CONFIG, "warn redis: appendonly is on"),
        ({}, {**CLEAN_CONFIG, "save": "3600 1"}, 'warn redis: snapshots are on (save "3600 1")'),
        ({"role": "slave"}, CLEAN_CONFIG, "error redis: it is a slave"),
        (
            {"used_memory": 101, "maxmemory": 100, "maxmemory_policy": "noeviction"},
            CLEAN_CONFIG,
            "error redis: memory is full: 101 bytes are used of maxmemory 100",
        ),
        (
            {"used_memory": 91, "maxmemory": 100, "maxmemory_policy": "noeviction"},
            CLEAN_CONFIG,
            "warn redis: memory is nearly full: 91 bytes",
        ),
        ({"cluster_enabled": 1}, CLEAN_CONFIG, "error redis: Redis Cluster"),
        ({"maxmemory_policy": "volatile-lru"}, None, "warn redis: maxmemory-policy volatile-lru"),
    ],
)
def test_what_redis_will_bite_with(
    info: dict[str, Any], config: dict[str, str] | None, said: str
) -> None:
    assert said in texts(judge_redis({**CLEAN, **info}, config))


def test_the_advice_for_two_replicas_contradicts_itself_nowhere(tmp_path: Path) -> None:
    known = settings(tmp_path, STATE)
    two = SOUND._replace(replication_factor=2, min_insync_replicas=2)
    (strict,) = judge_topic(two, known.topics[0], known)
    assert strict.level is Level.WARN
    assert "one broker down stops all writes" in strict.text
    assert strict.fix.startswith("Add a third replica, or set min.insync.replicas to 1")
    followed = two._replace(min_insync_replicas=1)
    (finding,) = judge_topic(followed, known.topics[0], known)
    assert finding.level is Level.OK
    assert "an acknowledged event may be on one broker only" in finding.text


def test_a_redis_that_forbids_config_has_no_warnings() -> None:
    (finding,) = judge_redis(CLEAN, None)
    assert finding.level is Level.OK
    assert "CONFIG is forbidden" in finding.text


FACTS = TopicState("headgate.facts", "main", b"f" * 16, 6)
TELLING = PolicyTable([TopicPolicy("deals", "main", facts=True), TopicPolicy("orders", "main")])
SILENT = PolicyTable([TopicPolicy("deals", "main")])


def test_the_topic_of_facts_is_missed_only_where_a_topic_asks() -> None:
    assert list(judge_facts(None, SILENT, "main")) == []
    assert list(judge_facts(FACTS, TELLING, "main")) == []
    missing = texts(judge_facts(None, TELLING, "main"))
    assert missing.startswith(
        "warn topic headgate.facts: cluster main has no such topic: the facts"
    )
    assert "of deals are dropped" in missing


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cleanup_policy": "compact,delete"}, "cleanup.policy is compact,delete"),
        ({"timestamp_type": "LogAppendTime"}, "LogAppendTime"),
        ({"max_message_bytes": 1000}, "max.message.bytes is 1000"),
    ],
)
def test_what_spoils_facts_is_an_error(wrong: dict[str, Any], said: str) -> None:
    found = texts(judge_facts(FACTS._replace(**wrong), TELLING, "main"))
    assert found.startswith("error topic headgate.facts: ")
    assert said in found


def test_the_topic_of_facts_is_as_safe_as_its_topics() -> None:
    assert facts_topic(SILENT, {"deals": SOUND}, "main") is None
    made = facts_topic(TELLING, {"deals": SOUND, "orders": FACTS}, "main")
    assert made is not None
    assert (made.name, made.cluster, made.replication_factor) == ("headgate.facts", "main", 3)
    assert made.configs["min.insync.replicas"] == "2"
    assert made.configs["cleanup.policy"] == "delete"
    alone = facts_topic(TELLING, {}, "main")
    assert alone is not None
    assert alone.replication_factor == 1


@pytest.mark.parametrize(
    ("text", "option", "other"),
    [
        ("[http]\nport = 9096\n", "monitor.port", "http.port"),
        ("[monitor]\nport = 9090\n", "monitor.port", "http.management_port"),
        ("[coalescer]\nport = 8080\n", "coalescer.port", "http.port"),
        ("[coalescer]\nport = 9096\n", "coalescer.port", "monitor.port"),
    ],
)
def test_a_port_that_is_used_twice(tmp_path: Path, text: str, option: str, other: str) -> None:
    findings = judged(tmp_path, CLUSTER + REDIS + "[topics.a]\n" + text)
    assert f"is also {other}: on one machine" in texts(findings)
    assert [each.subject for each in findings] == [option]


def test_one_port_for_data_and_management_is_no_finding(tmp_path: Path) -> None:
    text = CLUSTER + REDIS + "[topics.a]\n[http]\nport = 9090\n"
    assert judged(tmp_path, text) == []


def test_one_port_that_every_machine_can_reach_is_a_finding(tmp_path: Path) -> None:
    text = CLUSTER + REDIS + '[topics.a]\n[http]\nport = 9090\nhost = "0.0.0.0"\n'
    (finding,) = [each for each in judged(tmp_path, text) if each.subject.startswith("http.m")]
    assert (finding.level, finding.subject) == (Level.WARN, "http.management_port")
    assert "9090 is also http.port" in finding.text
    assert "the console and the control plane" in finding.text


def test_a_redis_url_with_the_port_of_kafka(tmp_path: Path) -> None:
    text = CLUSTER + '[redis]\nurl = "redis://me:secret@a:1/0"\n[topics.a]\n'
    (finding, *_) = judged(tmp_path, text, {})
    assert (finding.level, finding.subject) == (Level.ERROR, "redis.url")
    assert finding.text == "a:1 is a Kafka broker, by clusters.main"
    assert "secret" not in str(finding)


def test_a_warning_of_many_topics_is_one_line() -> None:
    def warned(subject: str, text: str = "one copy") -> Finding:
        return Finding(Level.WARN, subject, text, "Add one.")

    many = [warned(f"topic t{number}") for number in range(12)]
    pair = [warned("topics.a", "none"), warned("topics.b", "none")]
    every = folded([*many, warned("topic t3", "other"), *pair])
    assert [(each.subject, each.text) for each in every] == [
        ("topics t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 2 more", "one copy"),
        ("topic t3", "other"),
        ("topics.a, topics.b", "none"),
    ]
