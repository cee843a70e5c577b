"""`headgate check --connect` against a real Kafka and a real Redis."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from headgate.devstack.ports import LOOPBACK
from support.process.stack import RunningBroker, RunningRedis, free_port

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

_CONFIG = """
[clusters.main]
bootstrap_servers = "{bootstrap}"

[redis]
url = "{redis}"

[topics."{topic}"]
key = ["/id"]
kind = "state"
suppress = "raw"

[topics."{topic}-missing"]
"""


def check(folder: Path, text: str, *args: str) -> tuple[int, dict[str, Any]]:
    """Run the command; return its exit code and its report."""
    file = folder / "headgate.toml"
    file.write_text(text)
    command = [sys.executable, "-m", "headgate", "check", "--config", str(file)]
    done = subprocess.run(
        [*command, "--connect", "--json", *args], capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def set_redis(server: RunningRedis, setting: str, value: str) -> None:
    with Redis.from_url(server.url) as client:
        client.config_set(setting, value)


def said(report: dict[str, Any], subject: str) -> str:
    return "\n".join(
        f"{each['level']}: {each['text']}"
        for each in report["findings"]
        if each["subject"] == subject
    )


def test_everything_that_will_bite_is_found(
    kafka: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    topic_name: str,
    tmp_path: Path,
) -> None:
    settings = {
        "cleanup.policy": "delete",
        "retention.ms": "60000",
        "message.timestamp.type": "LogAppendTime",
        "compression.type": "lz4",
        "unclean.leader.election.enable": "true",
    }
    kafka.create_topic(topic_name, 2, settings)
    stray = kafka.create_topic(f"0-{topic_name}")
    redis = start_redis()
    set_redis(redis, "save", "3600 1")
    text = _CONFIG.format(bootstrap=kafka.bootstrap, redis=redis.url, topic=topic_name)
    code, report = check(tmp_path, text)
    assert code == 0, report
    assert report["ok"] is True
    topic = said(report, f"topic {topic_name}")
    assert "warn: replication factor 1" in topic
    assert 'warn: cleanup.policy=delete on kind = "state"' in topic
    assert "warn: message.timestamp.type=LogAppendTime" in topic
    assert "warn: compression.type=lz4" in topic
    assert "warn: retention.ms=60000" in topic
    assert "warn: unclean leader election" in topic
    assert "no such topic" in said(report, f"topics.{topic_name}-missing")
    assert 'warn: snapshots are on (save "3600 1")' in said(report, "redis")
    assert stray in said(report, "topics")
    assert check(tmp_path, text, "--strict")[0] == 1


def test_a_sound_setup_says_ok(
    start_redis: Callable[..., RunningRedis], kafka: RunningBroker, topic_name: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic_name, 1, {"cleanup.policy": "compact"})
    text = _CONFIG.format(bootstrap=kafka.bootstrap, redis=start_redis().url, topic=topic_name)
    code, report = check(tmp_path, text)
    assert code == 0
    assert said(report, "cluster main").startswith(f"ok: {kafka.bootstrap} answers")
    assert said(report, "redis").startswith("ok: answers, version")
    assert said(report, "redis").count("\n") == 0
    # a single broker cannot have more than one replica
    assert said(report, f"topic {topic_name}").startswith("warn: replication factor 1")
    assert said(report, f"topic {topic_name}").count("\n") == 0


def test_what_does_not_answer_is_an_error_and_exit_code_1(tmp_path: Path) -> None:
    port = free_port()
    redis_url = f"redis://:hush@{LOOPBACK}:{port}"
    text = _CONFIG.format(bootstrap=f"{LOOPBACK}:{free_port()}", redis=redis_url, topic="deals")
    code, report = check(tmp_path, text)
    assert code == 1
    assert report["ok"] is False
    assert said(report, "cluster main").startswith("error: no answer from")
    assert said(report, "redis").startswith(f"error: no answer from {LOOPBACK}:{port}: ")
    assert "hush" not in json.dumps(report)
    # what is not known is not said to be missing
    assert said(report, "topics.deals") == ""


def test_without_redis_repeats_are_not_recognised(tmp_path: Path) -> None:
    servers = f"{LOOPBACK}:{free_port()}"
    text = f'[clusters.main]\nbootstrap_servers = "{servers}"\n[topics.clicks]\n'
    _, report = check(tmp_path, text)
    assert said(report, "redis").startswith("warn: not configured: no Idempotency-Key is checked")


def test_settings_of_a_running_redis_are_read(
    start_redis: Callable[..., RunningRedis], kafka: RunningBroker, topic_name: str, tmp_path: Path
) -> None:
    server = start_redis()
    set_redis(server, "maxmemory-policy", "allkeys-lru")
    set_redis(server, "appendonly", "yes")
    text = _CONFIG.format(bootstrap=kafka.bootstrap, redis=server.url, topic=topic_name)
    _, report = check(tmp_path, text)
    assert "warn: maxmemory-policy allkeys-lru" in said(report, "redis")
    assert "warn: appendonly is on" in said(report, "redis")


def test_wrong_listeners_are_named(kafka: RunningBroker, topic_name: str, tmp_path: Path) -> None:
    """A login where Kafka takes none, and a URL of Redis with the address of Kafka."""
    text = _CONFIG.format(
        bootstrap=f'{kafka.bootstrap}"\nsecurity_protocol = "SASL_PLAINTEXT"\n'
        'sasl_mechanism = "PLAIN"\nsasl_username = "u"\nsasl_password = "p',
        redis=f"redis://{kafka.bootstrap}",
        topic=topic_name,
    )
    code, report = check(tmp_path, text)
    assert code == 1
    assert "the listener takes no SASL login (ILLEGAL_SASL_STATE)" in said(report, "cluster main")
    assert f"{kafka.bootstrap} is a Kafka broker, by clusters.main" in said(report, "redis.url")
    (redis,) = [each for each in report["findings"] if each["subject"] == "redis"]
    assert "such as Kafka" in redis["fix"]
