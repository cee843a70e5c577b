"""The strategies of several records, when gateways die between them and when they interleave."""

from __future__ import annotations

import asyncio
import os
import signal
import textwrap
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from confluent_kafka import Producer

from headgate.consumer import assembler as library
from headgate.consumer.assembler import Assembler, Bounds, Event
from headgate.consumer.claims import ClaimChecks
from headgate.oversize.chunks import Head, headers_of, rebuild
from support.gateway.oversize_world import (
    LIMIT,
    as_read,
    configuration,
    document,
    noise,
    post,
    records,
)
from support.kafka.kafka_log import LogRecord, end_offsets, group_offsets
from support.pages import text_of
from support.process.stack import Gateway, RunningBroker, eventually
from support.scale import scaled

pytestmark = pytest.mark.kafka

FAR = Bounds(max_gap=1_000_000)


def chunking(broker: RunningBroker, topic: str) -> str:
    return configuration(broker, f'[topics.{topic}]\nkey = "/id"\noversize = ["chunk"]')


def written(broker: RunningBroker, topic: str) -> int:
    return sum(end_offsets(broker.bootstrap, topic).values())


async def killed_in_the_middle(
    broker: RunningBroker, gateway: Gateway, topic: str, body: bytes, after: int, **headers: str
) -> bool:
    """Post, and kill the gateway once `after` more records are there; whether it was answered."""
    before = written(broker, topic)

    pids = gateway.pids

    def has_come() -> bool:
        """The gateway stands still meanwhile, as a look may take longer than all the rest."""
        signal_all(pids, signal.SIGSTOP)
        is_there = written(broker, topic) >= before + after
        # Not only the parent: its end would wake up stopped workers (setpgid(2), orphaned groups).
        signal_all(pids, signal.SIGKILL if is_there else signal.SIGCONT)
        return is_there

    with ThreadPoolExecutor(1) as pool:
        posting = pool.submit(post, gateway.url, topic, body, headers)
        await eventually(has_come, 60, 0.002)
        gateway.kill()
        with suppress(OSError, HTTPException):
            return posting.result().status == 201
    return False


def signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in reversed(pids):  # the parent last
        os.kill(pid, number)


def sets_of(found: list[LogRecord]) -> dict[bytes, list[LogRecord]]:
    sets: dict[bytes, list[LogRecord]] = defaultdict(list)
    for record in found:
        sets[record.header("hg-chunk-set") or b""].append(record)
    return sets


async def test_a_gateway_killed_between_two_chunks_leaves_no_half_event(
    kafka, start_gateway, topic_name
):
    kafka.create_topic(topic_name, 1, {"max.message.bytes": str(LIMIT)})
    gateway = start_gateway(chunking(kafka, topic_name))
    assert post(gateway.url, topic_name, b'{"id":"a","n":1}').status == 201
    bodies, answered = [document("a", 6_000_000, seed) for seed in (1, 2)], []
    for number, body in enumerate(bodies):
        event_id = f"e-{number}"
        said = await killed_in_the_middle(
            kafka, gateway, topic_name, body, 3 + 10 * number, **{"Headgate-Event-Id": event_id}
        )
        answered.append(said)
        gateway.restart()
        again = post(gateway.url, topic_name, body, {"Headgate-Event-Id": event_id})
        assert (again.status, again.body["oversize"]) == (201, "chunk")
    found = records(kafka, topic_name)
    sets = sets_of(found)
    del sets[b""]  # the small one
    halves = {name: one for name, one in sets.items() if len(one) < chunks_of(one[0])}
    assert len(sets) == 4
    ended = 2 - len(halves)  # all chunks were there, whether or not that was answered
    assert ended >= sum(answered)
    assert halves, "no gateway was killed in time: nothing was tested"

    one = Assembler(FAR)
    came: list[tuple[int, Event]] = []  # with the offset that makes it whole
    first_half = min(half[0].offset for half in halves.values())
    for record in found:
        event = one.add(as_read(topic_name, record))
        if event is not None:
            came.append((record.offset, event))
        assert (one.low_water(topic_name, 0) or 0) <= max(first_half, record.offset + 1)
        if record.offset >= first_half:
            assert one.low_water(topic_name, 0) == first_half  # never past an incomplete set
    whole = [event.value for _, event in came[1:]]
    assert set(whole) == {*bodies}
    assert len(whole) == 2 + ended
    assert came[-1][1].header("hg-event-id") == b"e-1"
    assert one.incomplete == len(halves)

    # Started again from what it committed, a consumer gets all behind it once more; bounds end
    # the wait for the halves.
    later = Assembler(Bounds(max_gap=chunks_of(found[-1]) * 3 // 2))
    rest = (later.add(as_read(topic_name, record)) for record in found[first_half:])
    behind = [event.value for offset, event in came[1:] if offset >= first_half]
    assert [event.value for event in rest if event is not None] == behind
    assert later.dropped.get("gap", 0) >= 1


def chunks_of(record: LogRecord) -> int:
    return int(record.header("hg-chunk-count") or b"0")


@pytest.mark.parametrize("wanted", scaled(1, 2))
async def test_a_gateway_killed_between_two_elements_writes_no_manifest_without_them(
    kafka, start_gateway, topic_name, wanted
):
    kafka.create_topic(
        topic_name, 3, {"max.message.bytes": str(LIMIT), "cleanup.policy": "compact"}
    )
    gateway = start_gateway(
        configuration(
            kafka,
            f'[topics.{topic_name}]\nkey = "/id"\nkind = "state"\noversize = ["split"]\n'
            'split = {pointer = "/options", key = "/id"}',
        )
    )
    bodies, cut = [], 0
    for number in range(12):  # on a busy machine a kill may come after all elements
        options = [
            {"id": f"o{n}", "text": noise(40_000, number * 1000 + n).decode()} for n in range(100)
        ]
        bodies.append(orjson.dumps({"id": "deal", "version": number, "options": options}))
        before = written(kafka, topic_name)
        await killed_in_the_middle(kafka, gateway, topic_name, bodies[-1], (1, 40)[number % 2])
        gateway.restart()
        cut += written(kafka, topic_name) - before < 100
        if cut == wanted:
            break
    cut_short = len(records(kafka, topic_name))
    answer = post(gateway.url, topic_name, bodies[-1])
    assert (answer.status, answer.body["oversize"]) == (201, "split")
    found = records(kafka, topic_name)
    by_set: dict[bytes, dict[bytes | None, bytes | None]] = defaultdict(dict)
    manifests = []
    for record in found:
        name = record.header("hg-split-set") or b""
        if record.header("hg-split") == b"manifest":
            manifests.append((name, record))
        else:
            by_set[name][record.key] = record.value
    assert any(len(elements) < 100 for elements in by_set.values()), "nothing was killed in time"
    assert len(found) > cut_short
    for name, manifest in manifests:
        assert rebuild(manifest.value or b"", by_set[name]) in bodies
    assert manifests[-1][1].offset == answer.body["offset"]
    assert rebuild(manifests[-1][1].value or b"", by_set[manifests[-1][0]]) == bodies[-1]


def test_two_gateways_that_chunk_under_one_key_at_once(kafka, start_gateway, topic_name):
    kafka.create_topic(topic_name, 1, {"max.message.bytes": str(LIMIT)})
    gateways = [start_gateway(chunking(kafka, topic_name)) for _ in range(2)]
    bodies: list[list[bytes]] = [[], []]
    found: list[LogRecord] = []

    def send(side: int) -> int:
        return post(gateways[side].url, topic_name, bodies[side][-1]).status

    def is_interleaved() -> bool:
        runs = [name for name, _ in groupby(found, lambda one: one.header("hg-chunk-set"))]
        return len(runs) > len({*runs})

    with ThreadPoolExecutor(2) as pool:
        for number in range(20):  # on a busy machine one may be done before the other begins
            for side in range(2):
                bodies[side].append(document("a", 1_500_000, 100 * side + number))
            assert list(pool.map(send, range(2))) == [201, 201]
            found = records(kafka, topic_name)
            if number >= 1 and is_interleaved():
                break
    assert is_interleaved()
    one = Assembler()
    events = [event for record in found if (event := one.add(as_read(topic_name, record)))]
    values = [event.value for event in events]
    assert sorted(values, key=bodies_order(bodies)) == bodies[0] + bodies[1]
    for side in bodies:  # each gateway's in its order
        assert [value for value in values if value in side] == side
    assert (one.incomplete, one.dropped) == (0, {})
    assert one.low_water(topic_name, 0) == len(found)
    # What is read twice (a rebalance, a restart) comes out twice and never mixed.
    again = [one.add(as_read(topic_name, record)) for record in found]
    assert [event.value for event in again if event is not None] in ([], values)


def bodies_order(bodies: list[list[bytes]]) -> Any:
    every = [body for side in bodies for body in side]
    return every.index


async def test_a_thousand_incomplete_sets_in_the_log_are_bounded(kafka, topic_name):
    kafka.create_topic(topic_name, 1)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "linger.ms": 50, "enable.idempotence": True}
    )
    for number in range(1000):
        head = Head(b"set-%d" % number, 0, 2, 40_000, b"\0" * 32)
        producer.produce(topic_name, noise(20_000, number), b"k", headers=headers_of(head))
        producer.poll(0)
    whole = b"whole"
    producer.produce(topic_name, whole, b"k")
    assert producer.flush(30) == 0
    bound = 2_000_000
    one = Assembler(Bounds(max_bytes=bound))
    limit, marks, came = 0, list[int](), list[bytes | None]()
    for record in records(kafka, topic_name):
        event = one.add(as_read(topic_name, record))
        came += [event.value] if event is not None else []
        limit = max(limit, one.bytes)
        marks.append(one.low_water(topic_name, 0) or 0)
    assert came == [whole]
    assert bound // 2 < limit <= bound
    assert one.dropped["evicted"] == 1000 - one.incomplete
    assert marks == sorted(marks)


# ---- the program that the library's documentation shows


class Got(NamedTuple):
    key: bytes | None
    value: bytes | None


async def test_the_program_of_the_documentation_runs(kafka, start_gateway, topic_name, tmp_path):
    text = library.__doc__ or ""
    start = text.index("    class Forget")
    program = textwrap.dedent(text[start : text.index("\nA test runs exactly this")])
    assert program.strip() in text_of("publish/oversize")

    kafka.create_topic(topic_name, 3, {"max.message.bytes": str(LIMIT)})
    root = tmp_path / "blobs"
    chunked = f'[topics.{topic_name}]\nkey = "/id"\nmax_bytes = 50000\noversize = ["chunk"]\n'
    stored = f'[topics.{topic_name}]\nkey = "/id"\nmax_bytes = 50000\noversize = ["claim-check"]\n'
    bodies = [b'{"id":"a"}', document("b", 400_000), document("c", 90_000)]
    for policy in (chunked, stored):
        blobs = f'[blobs]\nurl = "file://{root}"\n'
        gateway = start_gateway(configuration(kafka, policy, blobs))
        assert [post(gateway.url, topic_name, body).status for body in bodies] == [201] * 3
        gateway.stop()

    names: dict[str, Any] = {
        one.__name__: one
        for one in (AIOKafkaConsumer, ConsumerRebalanceListener, Assembler, ClaimChecks)
    }
    group = f"group-of-{topic_name}"
    for shown, ours in (("documents", topic_name), ("archive", group)):
        program = program.replace(f'"{shown}"', f'"{ours}"')
    program = program.replace("file:///var/lib/headgate/blobs", f"file://{root}")
    exec(compile(program, str(Path(library.__file__ or "")), "exec"), names)
    got: list[Got] = []

    async def handle(event: Event, value: bytes | None) -> None:
        got.append(Got(event.key, value))

    running = asyncio.ensure_future(names["archive"](kafka.bootstrap, handle))
    try:
        await eventually(lambda: len(got) == 6, 30)
        ends = end_offsets(kafka.bootstrap, topic_name)

        def all_committed() -> bool:
            marks = group_offsets(kafka.bootstrap, group, topic_name)
            return all(marks.get(place, 0) == end for place, end in ends.items() if end)

        await eventually(all_committed, 30)
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert sorted(got) == sorted([Got(body[7:8], body) for body in bodies] * 2)
