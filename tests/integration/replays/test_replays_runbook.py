"""The first commands of docs/operate/replays.md: ask, watch, read exactly those events."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from support.kafka import kafka_log
from support.root import ROOT
from support.scenarios.replay_world import BASE_MS, Api, ReplayRunner, Two

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SCRIPT = ROOT / "deploy" / "replay" / "read_replay.py"


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def headgate(api: Api, *arguments: str) -> Any:
    command = [sys.executable, "-m", "headgate", *arguments, "--url", api.url]
    return json.loads(run(*command))


def events(output: str) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


def key_of(event: Any) -> Any:
    return (event["partition"], event["key"], event["value"], event["timestamp"])


def test_ask_watch_and_read_exactly_those_events(
    two: Two, topic: str, api: Api, start_runner: Callable[[], ReplayRunner]
) -> None:
    start_runner()
    since = str(BASE_MS + 5_000)
    asked = ["replay", "create", "--topic", topic, "--from", since, "--producer", "checkout"]
    dry = headgate(api, *asked, "--dry-run")
    assert (dry["planned"]["records"], dry["planned"]["covered"]) == (55, True)
    made = headgate(api, *asked, "--wait", "--idempotency-key", topic)
    assert made["state"] == "ready"
    assert headgate(api, *asked, "--idempotency-key", topic)["id"] == made["id"]
    listed = headgate(api, "replay", "list", "--topic", topic)["replays"]
    assert [one["id"] for one in listed] == [made["id"]]
    read = events(run(sys.executable, str(SCRIPT), "--url", api.url, made["id"]))
    wanted = [
        (one.partition, _text(one.key), _text(one.value), one.timestamp_ms)
        for one in kafka_log.read_log(two.ingest.bootstrap, topic)
        if ("hg-producer", b"checkout") in one.headers and one.timestamp_ms >= int(since)
    ]
    assert len(wanted) > 10
    assert sorted(map(key_of, read), key=str) == sorted(wanted, key=str)
    command = [sys.executable, str(SCRIPT), "--url", api.url, made["id"]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as left:
        assert left.stdout is not None
        assert left.stderr is not None
        left.stdout.close()  # as `| head` does
        assert (left.stderr.read(), left.wait(60)) == (b"", 1)
    ended = headgate(api, "replay", "cancel", made["id"])
    assert ended["control"] == "cancel"


def test_a_place_of_the_ingest_tier_is_found_on_the_backfill_tier(
    two: Two, topic: str, api: Api
) -> None:
    made = headgate(
        api, "replay", "create", "--topic", topic, "--from", str(BASE_MS), "--mode", "seek"
    )
    read = events(run(sys.executable, str(SCRIPT), "--url", api.url, made["id"]))
    assert len(read) == 60
    source = next(
        one for one in kafka_log.read_log(two.ingest.bootstrap, topic) if one.partition == 1
    )
    page = headgate(api, "offsets", "translate", "--topic", topic, f"1:{source.offset}")
    (place,) = page["offsets"]["1"]
    (found,) = [one for one in read if (one["partition"], one["offset"]) == (1, place["offset"])]
    assert place["result"] == "exact"
    assert found["value"] == _text(source.value)


def test_the_script_tells_in_one_line_why_there_is_nothing_to_read(api: Api) -> None:
    for url, said in ((api.url, "no replay 'none'"), ("http://127.0.0.1:1", "does not answer")):
        command = [sys.executable, str(SCRIPT), "--url", url, "none"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 1
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


def test_refused_replay_create_names_the_cause(topic: str, api: Api) -> None:
    command = [sys.executable, "-m", "headgate", "replay", "create", "--topic", topic, "--from"]
    for extra, code, said in (
        (["2d", "--mode", "group"], 1, "--group: the group whose offsets are committed is missing"),
        (["{"], 2, "--from"),
        (["2d", "--url", api.data_url], 1, "give the management port (http.management_port, 9090"),
        (["2d", "--url", "http://127.0.0.1:1"], 1, "does not answer"),
    ):
        done = subprocess.run(
            [*command, extra[0], "--url", api.url, *extra[1:]],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code
        assert said in done.stderr


def test_a_place_that_is_not_there_is_refused(topic: str, api: Api) -> None:
    command = [sys.executable, "-m", "headgate", "offsets", "translate", "--url", api.url]
    for name, place, said in (
        (topic, "2:0", f"PARTITION:OFFSETS 2: {topic} has no such partition; it has 2, from 0\n"),
        (topic, "0:-1", "PARTITION:OFFSETS 0: a whole number from 0 to"),
        (f"{topic}-none", "0:0", f"topic '{topic}-none' is on neither tier"),
    ):
        done = subprocess.run(
            [*command, "--topic", name, place], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 1
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
