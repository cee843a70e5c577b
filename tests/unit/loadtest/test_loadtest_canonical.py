"""The pieces of the run that compares values: documents in many ways, topics, the table."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from cases.canonical import CASES, CONFIG, TOPIC, TOPICS, Found
from headgate.config.load import load
from headgate.model.content import Comparison
from plan import WORKLOADS
from report import canonical_table
from saves import IGNORED, SAVE_BYTES
from workload import Shape

JSON = b"application/json"
SHAPE = Shape(mode="unchanged", key_count=20)


def test_a_save_has_its_size_whatever_the_counter() -> None:
    some = [*islice(WORKLOADS["save"].events(Shape(first=10**11)), 100)]
    assert {len(one) for one in some} == {SAVE_BYTES}
    assert len(set(some)) == 100


def test_what_is_written_in_another_way_has_the_same_value() -> None:
    digest = Comparison(b"rules", (IGNORED,), 4_000_000).digest
    primed = {digest(one, JSON) for one in WORKLOADS["respelled"].every_key(SHAPE)}
    spelled = [*islice(WORKLOADS["respelled"].events(SHAPE), 2_000)]
    assert {digest(one, JSON) for one in spelled} == primed
    assert len(set(spelled)) > 5 * len(primed) == 100
    assert {fallback for _, fallback in primed} == {None}
    assert {*islice(WORKLOADS["save"].events(SHAPE), 2_000)} == {
        *WORKLOADS["save"].every_key(SHAPE)
    }


def test_the_configuration_is_valid(tmp_path: Path) -> None:
    text = CONFIG.format(kafka="127.0.0.1:1", redis="redis://127.0.0.1:1")
    text += "".join(TOPIC.format(name=name, options=options) for name, options in TOPICS.items())
    (file := tmp_path / "headgate.toml").write_text(text)
    topics = {topic.pattern: topic.ignore for topic in load(file, {}).topics}
    assert topics == {
        "canonical-raw": (),
        "canonical-values": (),
        "canonical-ignoring": (IGNORED,),
    }


def report(cost: float) -> dict[str, Any]:
    return {
        "cpu_us_per_event": {"target": cost},
        "events_per_s": 1000,
        "foreign_cores": 0.1,
        "log": "exact",
    }


def test_the_table_has_the_ratio_to_the_bytes_compared_in_the_same_round() -> None:
    found: Found = {case: [report(2.0), report(4.0)] for case in CASES}
    found[CASES[1]] = [report(2.2), report(8.0)]
    lines = canonical_table(found).splitlines()[2:]
    assert len(lines) == len(CASES) == 8
    assert lines[0].startswith("| published | raw | 3.0 (2.0..4.0) | - | - | 1,000 | 0.10 | exact")
    assert "1.55 (1.10..2.00) | <= 1.5 MISSED" in lines[1]
    assert all("1.00 (1.00..1.00) | <= 1.5 met" in line for line in (lines[2], lines[5]))
