"""Mirror, verify, audit and replays between clusters that ask who is there: SASL over TLS.

Each part has the rights that docs/operate/ documents, and no others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AclOperation as Op
from confluent_kafka.admin import ResourceType
from pyspark.sql import SparkSession

from headgate import cli
from headgate.devstack.servers import KafkaInstallation
from headgate.replays.offset_map import MAP_TOPIC
from headgate.replays.registry import REGISTRY_TOPIC
from headgate_spark.audit.job import AuditRequest, audit
from headgate_spark.job.options import JobConfig, read_config
from headgate_spark.mirror.mirror import MirrorRequest, mirror
from headgate_spark.mirror.verify import VerifyRequest, verify
from support.clients import http_client
from support.kafka import kafka_log
from support.kafka.secured_broker import SECRET, SecuredBroker, sasl_toml
from support.process.stack import Gateway, RunningBroker
from support.root import ROOT
from support.scale import scaled
from support.scenarios import mirror_world, replay_world
from support.scenarios.replay_copies import replayed, until_ready, wanted
from support.scenarios.replay_world import Api, ReplayRunner
from support.terminal.reported import Reported

pytestmark = pytest.mark.kafka

TOPIC = ResourceType.TOPIC
TRANSACTION = ResourceType.TRANSACTIONAL_ID
SCRAM = "SCRAM-SHA-512"


class Secured(NamedTuple):
    """Both tiers: PLAIN on the ingest cluster, SCRAM on the backfill cluster."""

    ingest: SecuredBroker
    backfill: SecuredBroker
    folder: Path

    def config(self, user: str) -> Path:
        """As one of the users, who is `gate` on the ingest cluster where it has no rights there."""
        password = self.folder / "password"
        password.write_text(f"{SECRET}\n")
        ingest = sasl_toml(self.ingest, "gate" if user == "gateway" else user, "PLAIN", password)
        backfill = sasl_toml(self.backfill, user, SCRAM, password)
        file = self.folder / f"{user}.toml"
        file.write_text(
            f'[clusters.main]\nbackfill = "old"\n{ingest}'
            f'[clusters.old]\ntier = "backfill"\n{backfill}'
            '[topics."*"]\ncluster = "main"\nkey = ["/id"]\n'
        )
        return file

    def jobs(self, user: str) -> JobConfig:
        return read_config(self.config(user), {})


@pytest.fixture
def tiers(kafka_installation: KafkaInstallation, tmp_path: Path) -> Iterator[Secured]:
    with ExitStack() as ending:
        brokers = []
        for name in ("ingest", "backfill"):
            (tmp_path / name).mkdir()
            brokers.append(SecuredBroker(kafka_installation, tmp_path / name))
            ending.callback(brokers[-1].node.kill)
        for one in brokers:
            one.node.wait()
        yield Secured(*brokers, tmp_path)


def allow_mirror(tiers: Secured, topic: str) -> None:
    """docs/operate/mirror.md, "Rights"."""
    tiers.ingest.allow("mirror", TOPIC, topic, Op.READ, Op.DESCRIBE, Op.DESCRIBE_CONFIGS)
    for name in (topic, MAP_TOPIC):
        tiers.backfill.allow(
            "mirror", TOPIC, name,
            Op.CREATE, Op.WRITE, Op.READ, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.ALTER,
        )  # fmt: skip
    tiers.backfill.allow(
        "mirror", TRANSACTION, "headgate.mirror.", Op.WRITE, Op.DESCRIBE, is_prefix=True
    )


def allow_replays(tiers: Secured, topic: str) -> None:
    """docs/operate/replays.md, "Rights"."""
    allow = tiers.backfill.allow
    for user in ("gateway", "runner"):
        allow(user, TOPIC, REGISTRY_TOPIC, Op.READ, Op.WRITE)
        allow(user, TOPIC, topic, Op.READ)
    allow("runner", TOPIC, topic, Op.DESCRIBE_CONFIGS)
    allow("gateway", TOPIC, MAP_TOPIC, Op.READ)
    allow("gateway", TRANSACTION, "headgate.replays.api", Op.WRITE, Op.DESCRIBE)
    allow("runner", TOPIC, "replay.", Op.CREATE, Op.WRITE, Op.DELETE, is_prefix=True)
    allow("runner", TRANSACTION, "headgate.replay.runner", Op.WRITE, Op.DESCRIBE)
    tiers.ingest.allow("runner", TOPIC, topic, Op.READ)  # for --allow-cold


def post(gateway: Gateway, topic: str, numbers: range) -> None:
    for number in numbers:
        answer = http_client.post(gateway.port, topic, b'{"id": %d}' % number)
        assert answer.status == 201, answer


@pytest.mark.parametrize("every_job", scaled(False, True))
def test_tiers_that_ask_who_is_there(
    tiers: Secured,
    topic_name: str,
    spark: SparkSession,
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
    every_job: bool,
) -> None:
    two = replay_world.Two(tiers.ingest.node, tiers.backfill.node)
    two.ingest.create_topic(topic_name, 2)
    for user in ("gate", "gateway", "mirror", "runner"):
        tiers.backfill.add_scram(user, SCRAM)
    assert cli.main(["init", "--config", str(tiers.config("gate"))]) == 0
    allow_mirror(tiers, topic_name)
    allow_replays(tiers, topic_name)
    gateway = start_gateway(tiers.config("gateway").read_text())
    post(gateway, topic_name, range(40))
    said = Reported()
    asked = MirrorRequest(topics=topic_name)
    assert mirror(spark, tiers.jobs("mirror"), asked, said.report) == 0, said.lines
    assert mirror_world.judge(mirror_world.Two(*two), topic_name) == 40
    check_replays(tiers, two, topic_name, gateway)
    if not every_job:  # the others ask for the same login in the same place
        return
    out = tmp_path / "verify.json"
    compared = VerifyRequest(topics=topic_name, out=out)
    assert verify(spark, tiers.jobs("mirror"), compared, said.report) == 0, said.lines
    found = json.loads(out.read_text())
    assert [one["good"] for one in found] == [True, True]
    assert sum(one["compared"] for one in found) == 40
    request = AuditRequest(None, topic_name, None, None, None, (), tmp_path / "audit", publish=True)
    (audited,) = audit(spark, tiers.jobs("gate"), request, said.report)["topics"]
    assert audited["records"] == 45
    assert "headgate.skew" in kafka_log.topic_names(two.ingest.bootstrap)


def check_replays(tiers: Secured, two: replay_world.Two, topic: str, gateway: Gateway) -> None:
    """What is mirrored from there, and what is not from the ingest cluster."""
    api = Api(gateway)
    (first, *_) = [one for one in read(two.ingest, topic) if one.partition == 0]
    moved = {"topic": topic, "to": "backfill", "offsets": {"0": [first.offset]}}
    (row,) = api.ask("POST", "/v1/offsets/translate", moved).page["offsets"]["0"]
    assert row["result"] == "exact"
    assert api.get(f"/v1/coverage/{topic}")["partitions"]["1"]["not_mirrored"]["behind"] == 0
    post(gateway, topic, range(40, 45))
    ends = kafka_log.end_offsets(two.ingest.bootstrap, topic)
    to = {"offsets": {str(one): end for one, end in ends.items()}}
    made = api.create(topic, to=to, allow_cold=True).page
    assert made["planned"]["cold_offsets"] == 5
    runner = ReplayRunner(tiers.config("runner"), tiers.folder / "runner.log")
    try:
        until_ready(api, made)
        assert replayed(two, made) == wanted(two, topic, lambda _: True)
        assert len(read_by_script(tiers, api, made["id"])) == 45
        assert api.ask("DELETE", f"/v1/replays/{made['id']}").status == 200
    finally:
        runner.stop()
        sys.stdout.write(runner.log())  # shown when it fails


def read_by_script(tiers: Secured, api: Api, replay_id: str) -> list[str]:
    """deploy/replay/read_replay.py, as a user of the backfill cluster."""
    script = ROOT / "deploy" / "replay" / "read_replay.py"
    way_in = ["--security-protocol", "SASL_SSL", "--sasl-mechanism", SCRAM, "--sasl-username"]
    way_in += ["gate", "--ssl-cafile", str(tiers.backfill.authority)]
    command = [sys.executable, str(script), "--url", api.url, *way_in, replay_id]
    password = {**os.environ, "KAFKA_PASSWORD": SECRET}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=password)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def read(broker: RunningBroker, topic: str) -> list[kafka_log.LogRecord]:
    return list(kafka_log.read_log(broker.bootstrap, topic))
