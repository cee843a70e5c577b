"""Facts and skew audits of one version, read by the gateway and the audit of the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.clients.http_client import exchange, post
from support.process.mirror_job import Job
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually
from support.upgrades.former import THIS, Step

pytestmark = pytest.mark.full  # two runs of Spark each way

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[redis]
url = "{redis}"
quarantine_ms = 1
[topics."{topic}"]
kind = "state"
key = ["/id"]
suppress = "raw"
facts = true
"""
SAME = ("topic", "records", "bytes", "partitions", "distinct_keys", "by_records", "by_bytes")


async def test_the_other_version_shows_the_audit_and_counts_the_same(
    step: Step,
    kafka: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
) -> None:
    kafka.create_topic(topic_name, 2)
    text = CONFIG.format(bootstrap=kafka.bootstrap, redis=start_redis().url, topic=topic_name)
    file = tmp_path / "headgate.toml"
    file.write_text(text)
    assert step.before.run("init", "--config", str(file)).returncode == 0
    before = start_gateway(text, environment=step.before.environment)
    body = json.dumps({"id": 1}).encode()

    def is_unchanged() -> bool:
        return post(before.port, topic_name, body).document["outcome"] == "unchanged"

    await eventually(is_unchanged, 30)
    for number in range(40):
        assert post(before.port, topic_name, b'{"id":%d}' % (number % 4)).status < 300
    before.stop()  # which writes the rest of its facts

    audits = []
    after = start_gateway(text, environment=step.after.environment)
    for version in step:
        out = tmp_path / version.name.replace(" ", "-")
        words = ("--config", str(file), "--topics", topic_name, "--out", str(out))
        job = Job(tmp_path, "audit", *words, environment=version.environment)
        try:
            assert job.wait() == 0, job.text()
        finally:
            job.end()
        path = f"/v1/audits/latest?topic={topic_name}"

        def shown(path: str = path) -> Any:
            answer = exchange(after.management_port, "GET", path)
            found = answer.document["topics"][0] if answer.status == 200 else None
            return found if found != (audits or [None])[-1] else None

        audits.append(await eventually(shown, 30, 0.5))
    first, second = audits
    assert {name: second[name] for name in SAME} == {name: first[name] for name in SAME}
    assert second["facts"] == first["facts"]
    if step.after == THIS:
        listed = exchange(after.management_port, "GET", f"/v1/audits?topic={topic_name}").document
        assert len(listed["audits"]) == 2, listed
