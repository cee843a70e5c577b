"""The pieces of the run beside peers: orders, rounds, builds, tables."""

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest

from cases.peers import CASES, FEW, PeerCase, measure
from headgate.config.load import load
from orders import events, every_key, key_of
from peers.builds import BUILDS, built
from peers.stand import PEERS, PeerStand
from peers.tables import details, ends, overview
from plan import Plan
from support.root import ROOT
from targets import Target
from workload import Mode, Shape

MANY = 2_000


def posted(mode: Mode = "published", first: int = 0, key_count: int = FEW) -> list[bytes]:
    return list(islice(events(Shape(mode=mode, first=first, key_count=key_count)), MANY))


def test_an_order_has_its_key_in_the_middle_and_a_size_of_its_own() -> None:
    values = posted(key_count=100_000)
    for value in values:
        document = orjson.loads(value)
        assert next(iter(document)) != "customer" != list(document)[-1]
        assert document["customer"]["ref"].encode() == key_of(value)
    sizes = sorted(map(len, values))
    assert 190 < sizes[0] < 300 < 600 < sizes[MANY // 2] < 800 < 2_200 < sizes[-1] < 2_500
    assert len(set(map(key_of, values))) > 0.98 * MANY


def test_orders_repeat_only_where_they_are_unchanged() -> None:
    values = posted() + posted(first=MANY)
    assert len(set(values)) == 2 * MANY
    assert len(set(map(key_of, values))) == FEW
    primed = set(every_key(Shape(mode="unchanged", key_count=FEW)))
    assert len(primed) == FEW
    assert set(posted("unchanged")) == primed
    assert posted() == posted()


def test_the_key_of_an_order_goes_into_the_path() -> None:
    plan = Plan("http://h:1/t/messages?sync&key={key}", document="order", events=5)
    for request in plan.requests():
        head, _, body = request.data.partition(b"\r\n\r\n")
        assert head.startswith(b"POST /t/messages?sync&key=%b HTTP/1.1\r\n" % key_of(body))


def stand_of(*names: str) -> PeerStand:
    batches = {"pixy": ""}
    targets = (Target(one, one, f"http://{one}/e", batches.get(one, "/b"), 1) for one in names)
    return PeerStand("h:1", ("kafka=2",), tuple(targets))


def test_rounds_take_the_targets_in_turn_and_no_batches_where_there_are_none() -> None:
    seen: list[tuple[str, str, int]] = []

    def measured(plan: Plan) -> dict[str, Any]:
        seen.append((plan.topic, plan.encoding, plan.first))
        return run_of(1.0)

    cases = [case for case in CASES if case.name in ("single-8", "ndjson")]
    found = measure(cases, stand_of("rust", "pixy"), 2, 1.0, lambda line: None, measured)
    assert [(topic, encoding) for topic, encoding, _ in seen] == [
        ("rust", "single"), ("pixy", "single"), ("rust", "single"), ("pixy", "single"),
        ("rust", "ndjson"), ("rust", "ndjson"),
    ]  # fmt: skip
    assert seen[0][2] == seen[1][2] != seen[2][2]  # a round posts the same to all
    assert found["ndjson"].keys() == {"rust"}


def run_of(cost: float, p99_ms: float = 9.0, log: str = "exact") -> dict[str, Any]:
    return {
        "cpu_us_per_event": {"target": cost, "redis": 5.0, "kafka": 20.0},
        "latency_ms": {"p50": p99_ms / 2, "p99": p99_ms},
        "events_per_s": 1000,
        "foreign_cores": 0.1,
        "outcomes": {"published": 7},
        "samples": [{"rss": {"target": {1: 2**20, 2: size * 2**20}}} for size in (1, 9, 4)],
        "log": log,
    }


def test_the_tables_say_where_a_peer_is_better() -> None:
    case = PeerCase("one", "one case", "single", 8, FEW)
    found = {
        "one": {
            "headgate-on": [run_of(50, 4), run_of(60, 5)],
            "aiokafka": [run_of(49), run_of(66, log="within unknown: x")],
            "rust": [run_of(20), run_of(30)],
            "pixy": [run_of(100), run_of(90)],
        }
    }
    (row,) = (line for line in overview([case], found).splitlines() if "one case" in line)
    assert "| 55.0 | 57.5 | **25.0** | 95.0 |" in row
    text = details([case], found)
    assert "| **25.0 (20.0..30.0)** | 0.45 (0.40..0.50) better | 1,000 |" in text
    assert "| 1.75 (1.50..2.00) worse |" in text
    assert "| 1.04 (0.98..1.10) |" in text  # one round says so, the other not
    assert "| **4.5 (4.0..5.0)** | 10 | 20.0 | 5.0 |" in text
    assert "| aiohttp + aiokafka | published 14 | exact, within unknown |" in ends(found)


def test_a_peer_without_its_toolchain_is_left_out_with_one_line() -> None:
    for name, build in BUILDS.items():
        said: list[str] = []
        assert built(name, said.append, find=lambda program: None) is None
        assert said == [f"{name} is left out: no {build.command[0]} ({build.hint})"]


@pytest.mark.parametrize(("name", "lock"), [("rust", "crates.lock"), ("pixy", "go.sum")])
def test_a_peer_is_locked(name: str, lock: str) -> None:
    assert name in BUILDS
    folder = ROOT / "loadtest" / "peers" / name
    assert (folder / lock).is_file()
    assert not any((folder / one).exists() for one in ("target", "vendor"))


def test_the_configuration_beside_peers_is_valid(tmp_path: Path) -> None:
    text = (ROOT / "loadtest" / "peers" / "headgate.toml").read_text()
    file = tmp_path / "headgate.toml"
    text = text.replace("BOOTSTRAP", "127.0.0.1:9092").replace("REDIS", "redis://127.0.0.1:6379")
    file.write_text(text)
    topics = {topic.pattern: topic.suppress for topic in load(file, {}).topics}
    assert topics == {"peers-on": "raw", "peers-off": "off"}


def test_cases_have_names_of_their_own() -> None:
    assert max(Counter(case.name for case in CASES).values()) == 1
    assert PEERS.keys() >= BUILDS.keys()
