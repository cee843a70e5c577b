"""The yardstick and the driver's judgement of the log, on a real broker."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from cases.run_driver import DriverFailed, finish, run, start
from headgate.devstack.child import Child
from headgate.devstack.ports import accepts
from plan import Plan
from support.kafka.kafka_log import read_log
from support.process.stack import RunningBroker, free_port
from support.root import ROOT

pytestmark = pytest.mark.kafka
YARDSTICK = ROOT / "loadtest" / "yardstick.py"


@pytest.fixture
def plan(kafka: RunningBroker, topic_name: str, tmp_path: Path) -> Iterator[Plan]:
    """A plan for 300 single events to a yardstick that runs."""
    kafka.create_topic(topic_name, 6)
    port = free_port()
    command = [sys.executable, str(YARDSTICK), "--bootstrap", kafka.bootstrap]
    child = Child(
        "yardstick",
        [*command, "--topic", topic_name, "--port", str(port)],
        tmp_path / "yardstick.log",
    )
    try:
        child.wait_until(lambda: accepts(port), 30)
        yield Plan(
            f"http://127.0.0.1:{port}/events",
            events=300,
            warm_up_s=0.0,
            seconds=60.0,
            connections=8,
            watch=(f"target={child.pid}",),
            bootstrap=kafka.bootstrap,
            topic=topic_name,
        )
    finally:
        child.kill()


def test_single_events_and_batches_are_in_the_log_as_answered(
    plan: Plan, kafka: RunningBroker
) -> None:
    batches = plan.url.replace("/events", "/batches")
    single = run(plan)
    ndjson = run(plan.with_(url=batches, encoding="ndjson", first=1_000))
    array = run(plan.with_(url=batches, encoding="array", first=2_000))
    for report in (single, ndjson, array):
        assert report["log"] == "exact"
        assert report["written"] == report["published"] == 300
        assert report["cpu_us_per_event"]["target"] >= 0
    records = read_log(kafka.bootstrap, plan.topic)
    assert len({record.value for record in records}) == 900
    assert all((record.key or b"") in (record.value or b"") for record in records)


def test_records_nobody_answered_for_fail_the_run(plan: Plan, kafka: RunningBroker) -> None:
    slow = plan.with_(events=0, rate=50.0, seconds=5.0)
    process = start(slow)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    while not read_log(kafka.bootstrap, plan.topic):
        assert process.poll() is None  # it has begun: its first reading of the log is over
    producer.produce(plan.topic, b"foreign")
    assert producer.flush(30) == 0
    with pytest.raises(DriverFailed, match="EXTRA 1"):
        finish(process, slow)
