"""The gateway and its peers on a real broker: what they answer is in the log, under its key."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cases.peers import CASES, measure
from cases.run_driver import run
from orders import key_of
from peers.builds import BUILDS
from peers.stand import PEERS, start_peers, topic_of
from peers.tables import text
from plan import Plan
from support.kafka.kafka_log import read_log
from support.process.stack import RunningBroker
from targets import new_redis

EVENTS = 100
# Building one takes minutes: here is tried what `loadtest/run.py peers` has built before.
BINARIES = {name: build.binary for name, build in BUILDS.items() if build.binary.exists()}
PRESENT = [name for name in PEERS if name not in BUILDS or name in BINARIES]


@pytest.mark.parametrize("name", BUILDS)
def test_a_peer_is_built(name: str) -> None:
    if name not in BINARIES:
        pytest.skip(f"not in build/peers: python loadtest/run.py peers ({BUILDS[name].hint})")


@pytest.mark.full  # six other programs start, which only comparisons use
@pytest.mark.kafka
def test_what_peers_answer_is_in_the_log_under_its_key(
    kafka: RunningBroker, tmp_path: Path
) -> None:
    def few(plan: Plan) -> dict[str, Any]:
        short = plan.with_(connections=4, events=EVENTS, warm_up_s=0.0, seconds=60.0)
        return run(short.with_(sample_s=0.1))

    cases = [case for case in CASES if case.name in ("single-64", "array-few", "single-unchanged")]
    with ExitStack() as ending:
        redis = new_redis(tmp_path, ending)
        stand = start_peers(PRESENT, kafka, redis, BINARIES, (), tmp_path, ending)
        found = measure(cases, stand, 1, 5.0, lambda line: None, few)
    for name in PRESENT:
        (single,) = found["single-64"][name]
        assert single["outcomes"] == {"published": EVENTS}
        assert single["log"] == "exact"
        assert name == "pixy" or found["array-few"][name][0]["log"] == "exact"
        (again,) = found["single-unchanged"][name]
        end = "unchanged" if name == "headgate-on" else "published"
        assert again["outcomes"] == {end: EVENTS}
        records = read_log(kafka.bootstrap, topic_of(name))
        values = [record for record in records if b'"ref":"c-' in (record.value or b"")]
        assert len(values) >= 2 * EVENTS
        assert all(key_of(record.value or b"") == record.key for record in values)
    assert all(PEERS[name] in text(cases, found) for name in PRESENT)
