"""Replays to a topic of their own: exactly the records that were asked for, whatever dies."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from support.kafka import kafka_log
from support.kafka.kafka_log import LogRecord
from support.process.stack import Gateway, RunningRedis
from support.scenarios.replay_copies import replayed, state_of, topics_of, until_ready, wanted
from support.scenarios.replay_world import BASE_MS, Api, ReplayRunner, Two, mirror, post, until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

StartRunner = Callable[[], ReplayRunner]


def test_exactly_the_filtered_records(
    two: Two, topic: str, api: Api, start_runner: StartRunner
) -> None:
    runner = start_runner()
    only = {"producers": ["checkout"], "equals": {"/even": True}}
    bounds = {"from": {"timestamp": BASE_MS + 6_000}, "to": {"timestamp": BASE_MS + 112_000}}
    made = api.create(topic, filter=only, deliver={"mode": "topic", "ttl_s": 3600}, **bounds).page
    ready = until_ready(api, made)

    def is_taken(one: LogRecord) -> bool:
        in_time = BASE_MS + 6_000 <= one.timestamp_ms < BASE_MS + 112_000
        is_even = one.value is not None and b'"even": true' in one.value
        return in_time and is_even and ("hg-producer", b"checkout") in one.headers

    expected = wanted(two, topic, is_taken)
    assert replayed(two, made) == expected
    assert len(expected) == ready["done"]["records"] == 8
    assert ready["done"]["read"] == ready["planned"]["records"] == 46
    starts = {int(one): place["start"] for one, place in ready["result"]["offsets"].items()}
    read = kafka_log.read_from(two.backfill.bootstrap, ready["result"]["topic"], starts)
    ends = {int(one): place["end"] for one, place in ready["result"]["offsets"].items()}
    assert sum(one.offset < ends[one.partition] for one in read) == 8
    assert api.ask("DELETE", f"/v1/replays/{made['id']}").status == 200
    until(lambda: state_of(api, made), "cancelled".__eq__)
    until(lambda: topics_of(two), lambda names: f"replay.{made['id']}" not in names)
    runner.stop()
    assert runner.exit_code == 0


@pytest.mark.full
def test_cold_records_come_too_where_that_is_allowed(
    two: Two, topic: str, api: Api, start_runner: StartRunner
) -> None:
    post(two, topic, 1, range(120, 140))
    to = {str(one): end for one, end in kafka_log.end_offsets(two.ingest.bootstrap, topic).items()}
    made = api.create(topic, to={"offsets": to}, allow_cold=True).page
    assert made["planned"]["cold_offsets"] == 23
    start_runner()
    until_ready(api, made)
    assert replayed(two, made) == wanted(two, topic, lambda _: True)


def test_a_runner_that_is_killed_anywhere_loses_and_repeats_nothing(
    two: Two, topic_name: str, api: Api, start_runner: StartRunner, request: pytest.FixtureRequest
) -> None:
    is_full = "not full" not in request.config.getoption("-m")
    kills, records = (30, 12_000) if is_full else (2, 700)
    two.create_topic(topic_name)
    for partition in (0, 1):
        post(two, topic_name, partition, range(partition * 100_000, partition * 100_000 + records))
    mirror(two, topic_name, chunk=500)
    made = api.create(topic_name, rate={"records_per_s": records // (10 if is_full else 3)}).page
    chance = random.Random(17)
    seen = set()
    for number in range(kills):
        runner = start_runner()
        until(runner.log, lambda text: "this is the runner now" in text)
        if number % 2:  # surely while it copies
            until(lambda: state_of(api, made), lambda now: now not in ("pending", "planned"))
            seen.add(state_of(api, made))
        time.sleep(chance.uniform(0, 1.0))
        runner.kill()
    start_runner()
    until_ready(api, made)
    assert "copying" in seen
    assert replayed(two, made) == wanted(two, topic_name, lambda _: True)


@pytest.mark.full
def test_two_runners_at_once(
    two: Two, topic_name: str, api: Api, start_runner: StartRunner
) -> None:
    two.create_topic(topic_name)
    post(two, topic_name, 0, range(900))
    mirror(two, topic_name, chunk=200)
    first = start_runner()
    until(first.log, lambda text: "this is the runner now" in text)
    second = start_runner()
    made = api.create(topic_name, rate={"records_per_s": 60}).page
    until(lambda: api.get(f"/v1/replays/{made['id']}")["done"]["records"], lambda done: done > 100)
    assert "this is the runner" not in second.log()
    first.signal(signal.SIGSTOP)  # a zombie: its connections stay, its lease does not
    until(second.log, lambda text: "this is the runner now" in text)
    first.signal(signal.SIGCONT)
    until(first.log, lambda text: "another runner has taken over" in text)
    until_ready(api, made)
    assert replayed(two, made) == wanted(two, topic_name, lambda _: True)
    assert (first.exit_code, second.exit_code) == (None, None)


FULL = pytest.mark.full


@pytest.mark.parametrize(
    "at",
    [
        "copying",
        pytest.param("pending", marks=FULL),
        pytest.param("paused", marks=FULL),
        pytest.param("ready", marks=FULL),
    ],
)
def test_cancelled_in_every_state(
    two: Two, topic: str, api: Api, start_runner: StartRunner, at: str
) -> None:
    rate = {} if at == "ready" else {"rate": {"records_per_s": 2}}
    made = api.create(topic, **rate).page
    path = f"/v1/replays/{made['id']}"
    if at != "pending":
        runner = start_runner()
        until(lambda: state_of(api, made), "ready".__eq__ if at == "ready" else "copying".__eq__)
        if at == "paused":
            api.ask("POST", f"{path}/pause")
            done = api.get(path)["done"]["records"]
            time.sleep(2)  # a chunk may have been on its way
            assert api.get(path)["done"]["records"] <= done + 2
        runner.kill()  # in that state, too
    assert api.ask("DELETE", path).status == 200
    start_runner()
    until(lambda: state_of(api, made), "cancelled".__eq__)
    until(lambda: topics_of(two), lambda names: f"replay.{made['id']}" not in names)
    assert api.ask("POST", f"{path}/resume").status == 409


@pytest.mark.full
def test_a_replay_expires_and_its_topic_with_it(
    two: Two, topic: str, api: Api, start_runner: StartRunner
) -> None:
    start_runner()
    made = api.create(topic, deliver={"mode": "topic", "ttl_s": 2}).page
    until(lambda: state_of(api, made), "expired".__eq__)
    until(lambda: topics_of(two), lambda names: f"replay.{made['id']}" not in names)


@pytest.mark.full
def test_a_gateway_that_is_killed_and_a_redis_that_is_empty_take_nothing_along(
    two: Two,
    topic: str,
    start_runner: StartRunner,
    start_gateway: Callable[..., Gateway],
    start_redis: Callable[..., RunningRedis],
) -> None:
    redis = start_redis()
    gateway = start_gateway(two.config(f'dedupe_ttl_s = 60\n[redis]\nurl = "{redis.url}"\n'))
    made = Api(gateway).create(topic, rate={"records_per_s": 30}).page
    start_runner()
    gateway.kill()
    redis.restart()  # it keeps nothing on disk
    gateway.restart()
    until_ready(Api(gateway), made)
    assert replayed(two, made) == wanted(two, topic, lambda _: True)


def post_plainly(two: Two, topic: str, records: int, size: int) -> None:
    """Values that no codec makes smaller, on the ingest tier alone."""
    producer = Producer({"bootstrap.servers": two.ingest.bootstrap, "linger.ms": 20})
    chance = random.Random(3)
    for number in range(records):
        producer.produce(topic, chance.randbytes(size), key=f"{number}", partition=number % 2)
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.mark.full
def test_reading_from_the_ingest_tier_keeps_to_its_rate(
    two: Two, topic_name: str, start_runner: StartRunner, start_gateway: Callable[..., Gateway]
) -> None:
    rate = 1_000_000
    two.create_topic(topic_name)
    post_plainly(two, topic_name, 5_000, 2_000)
    api = Api(start_gateway(two.config(f"[replays]\ncold_bytes_per_s = {rate}\n")))
    ends = kafka_log.end_offsets(two.ingest.bootstrap, topic_name)
    to = {"offsets": {str(one): end for one, end in ends.items()}}
    start_runner()
    rates = ({}, {"rate": {"bytes_per_s": rate - 100_000}})  # the limit is one for both
    made = [api.create(topic_name, to=to, allow_cold=True, **one).page["id"] for one in rates]
    points = []

    def read() -> Any:
        before_s = time.monotonic()
        pages = [api.get(f"/v1/replays/{one}") for one in made]
        points.append((before_s, time.monotonic(), sum(one["done"]["bytes"] for one in pages)))
        return pages

    until(read, lambda _: points[-1][2] > 16_000_000, 90)
    first = next(one for one in points if one[2] > 1_000_000)
    last = next(one for one in points if one[2] > 16_000_000)
    # From before the first read to behind the last: a busy machine only makes that longer.
    assert last[2] - first[2] <= 1.1 * rate * (last[1] - first[0])


@pytest.mark.full
def test_the_backfill_cluster_goes_down_and_comes_back(
    two: Two, topic_name: str, api: Api, start_runner: StartRunner
) -> None:
    two.create_topic(topic_name)
    post(two, topic_name, 0, range(600))
    mirror(two, topic_name, chunk=100)
    runner = start_runner()
    made = api.create(topic_name, rate={"records_per_s": 60}).page
    until(lambda: api.get(f"/v1/replays/{made['id']}")["done"]["records"], lambda done: done > 60)
    two.backfill.kill()
    time.sleep(30)
    two.backfill.restart()
    path = f"/v1/replays/{made['id']}"
    until(lambda: api.ask("GET", path).status, (200).__eq__, 120)
    until(lambda: api.ask("GET", path).page.get("state"), "ready".__eq__, 120)
    assert runner.exit_code is None
    assert replayed(two, made) == wanted(two, topic_name, lambda _: True)
