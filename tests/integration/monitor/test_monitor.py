"""Each situation that the monitor names, made on a real broker."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition
from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as RdPartition

from headgate.consumer import Consumer, ConsumerOptions, Received
from headgate.kafka.options import ClusterOptions
from headgate.monitor.cluster_watch import WatchOptions
from headgate.monitor.monitor import Monitor, MonitorOptions
from headgate.monitor.rules import LagRules
from support.kafka.rd_member import RdMember
from support.process.stack import RunningBroker, eventually
from support.scenarios.consumer_world import fill

pytestmark = pytest.mark.kafka

PATIENCE_MS = 1_500
WATCH = WatchOptions(LagRules(patience_ms=PATIENCE_MS), probation_ms=2_000, probation_lag=5)
Json = dict[str, Any]


@asynccontextmanager
async def watching(bootstrap: str, poll_s: float = 0.2) -> AsyncIterator[Monitor]:
    """A monitor that has polled, and follows every commit."""
    options = MonitorOptions(WATCH, poll_s, None)
    clusters = {"main": ClusterOptions(bootstrap)}
    monitor = Monitor(clusters, options, None, lambda: time.time_ns() // 1_000_000)
    monitor.start()
    try:
        await eventually(lambda: monitor.clusters[0].status.commits == "", 30)
        yield monitor
    finally:
        await monitor.close()


async def polled_again(monitor: Monitor) -> None:
    """Wait for a poll that began after now: an earlier one may know less than the commit stream."""
    for _ in range(2):
        before = monitor.clusters[0].status.polled_ms
        await eventually(lambda before=before: monitor.clusters[0].status.polled_ms != before, 20)  # type: ignore[misc]


def row(monitor: Monitor, group: str) -> Json | None:
    found: list[Json] = [one for one in monitor.groups()["groups"] if one["group"] == group]
    return found[0] if found else None


def state(monitor: Monitor, group: str) -> str | None:
    found = row(monitor, group)
    return None if found is None else str(found["state"])


async def page(monitor: Monitor, group: str) -> Json:
    found = await monitor.group(group)
    assert found is not None
    (on,) = found["on"]
    return on  # type: ignore[no-any-return]


@pytest.fixture
def join(kafka: RunningBroker, topic_name: str) -> Iterator[Callable[..., RdMember]]:
    """Starts librdkafka members of the test's own group and topic."""
    with ExitStack() as ending:

        def start(client: str, protocol: str = "classic") -> RdMember:
            member = RdMember(kafka.bootstrap, topic_name, f"g-{topic_name}", client, protocol)
            ending.callback(member.close)
            return member

        yield start


@pytest.fixture
async def group(kafka: RunningBroker, topic_name: str) -> str:
    """The name of the test's group, whose topic has two partitions of seven records."""
    kafka.create_topic(topic_name, 2)
    fill(kafka.bootstrap, topic_name, 2, 7)
    first = RdConsumer({"bootstrap.servers": kafka.bootstrap, "group.id": "somebody"})

    def is_known() -> bool:
        """Asking has Kafka create `__consumer_offsets`, which takes it a moment."""
        with suppress(KafkaException):
            return bool(first.committed([RdPartition(topic_name, 0)], timeout=30))
        return False

    await eventually(is_known, 30)
    first.close()
    return f"g-{topic_name}"


async def owns(member: RdMember, *partitions: int) -> None:
    async def does() -> bool:
        return await asyncio.to_thread(member.owned) == set(partitions)

    await eventually(does, 40)


async def owns_one(member: RdMember) -> int:
    """Wait until it owns one of the two partitions; return which."""

    async def owned() -> set[int]:
        found = await asyncio.to_thread(member.owned)
        return found if len(found) == 1 else set()

    return (await eventually(owned, 40)).pop()


async def commit(member: RdMember, partition: int, offset: int, metadata: str = "") -> None:
    await asyncio.to_thread(member.commit, partition, offset, metadata)


async def committed(monitor: Monitor, group: str) -> dict[int, int | None]:
    """What a poll has found, by partition."""
    found = await monitor.group(group)
    rows = [] if found is None else found["on"][0]["partitions"]
    return {one["partition"]: one["committed"] for one in rows}


async def has_committed(monitor: Monitor, group: str, *offsets: int) -> None:
    """Wait until polls find these offsets, of partitions 0, 1 ..., and who owns what now.

    Without a commit a partition has no lag either, so that no lag says nothing.
    """
    wanted = dict(enumerate(offsets))

    async def does() -> bool:
        return await committed(monitor, group) == wanted

    await eventually(does, 20)
    await polled_again(monitor)


async def takes(member: RdMember, partition: int, offset: int) -> bool:
    """Whether the broker takes a commit: one that has just begun may want the member to rejoin."""
    try:
        await commit(member, partition, offset)
    except KafkaException:
        return False
    return True


async def test_incident_b_is_named_with_time_and_owners(
    kafka: RunningBroker, group: str, join: Callable[..., RdMember]
) -> None:
    async with watching(kafka.bootstrap) as monitor:
        first = join("c1")
        await owns(first, 0, 1)
        for partition in (0, 1):
            await commit(first, partition, 4)
        second = join("c2")
        moved = await owns_one(second)
        await owns_one(first)
        await commit(first, 1 - moved, 7)
        await commit(second, moved, 7)
        await has_committed(monitor, group, 7, 7)
        assert state(monitor, group) == "OK"
        before_ms = time.time() * 1000
        await commit(first, moved, 5)  # late, of a generation that is current: the broker takes it
        after_ms = time.time() * 1000
        await eventually(lambda: state(monitor, group) == "REWIND", 20)
        found = await page(monitor, group)
        assert found["stuck_commit"]
        assert found["lag"] == 2
        assert any("stuck commit" in hint for hint in found["hints"])
        (fall,) = found["recent_regressions"]
        assert (fall["partition"], fall["from"], fall["to"]) == (moved, 7, 5)
        assert "c2" in fall["owner"]
        assert "c1" in fall["owner_before"]
        assert fall["committer"] is None, "librdkafka does not sign"
        assert fall["recovered_at"] is None
        (seen,) = [one for one in monitor.clusters[0].watch.regressions if one.group == group]
        assert before_ms - 1 <= seen.at_ms <= after_ms
        counts = monitor.figures().counters["headgate_commit_regressions_total"]
        assert counts["main", group, fall["topic"]] == 1
        await commit(second, moved, 7)
        await eventually(lambda: state(monitor, group) == "OK", 20)
        (fall,) = (await page(monitor, group))["recent_regressions"]
        assert fall["recovered_at"] is not None


async def test_a_step_back_between_two_polls_is_seen(
    kafka: RunningBroker, group: str, join: Callable[..., RdMember]
) -> None:
    async with watching(kafka.bootstrap, poll_s=3_600) as monitor:
        member = join("c1")
        await owns(member, 0, 1)
        signed = json.dumps({"member": "c1-x", "client": "till", "term": 4})
        for offset in (7, 5, 7):
            await commit(member, 0, offset, signed)

        def recovered() -> bool:
            falls = [one for one in monitor.groups()["regressions"] if one["group"] == group]
            return bool(falls) and falls[0]["recovered_at"] is not None

        await eventually(recovered, 20)
        (fall,) = [one for one in monitor.groups()["regressions"] if one["group"] == group]
        assert (fall["from"], fall["to"]) == (7, 5)
        assert fall["committer"] == {"member": "c1-x", "client": "till", "term": 4}


async def test_rewound_stalled_and_stopped(
    kafka: RunningBroker, group: str, topic_name: str, join: Callable[..., RdMember]
) -> None:
    async with watching(kafka.bootstrap) as monitor:
        member = join("c1")
        await owns(member, 0, 1)
        for partition in (0, 1):
            await commit(member, partition, 7)
        await has_committed(monitor, group, 7, 7)
        assert state(monitor, group) == "OK"
        await commit(member, 0, 2)
        await eventually(lambda: state(monitor, group) == "REWIND", 20)
        assert not (await page(monitor, group))["stuck_commit"], "its own doing"
        await commit(member, 0, 7)
        await eventually(lambda: state(monitor, group) == "OK", 20)
        fill(kafka.bootstrap, topic_name, 2, 3)

        async def stalls() -> bool:
            for partition in (0, 1):
                await commit(member, partition, 7)  # it lives, and says the same again
            return state(monitor, group) == "STALL"

        await eventually(stalls, 30)
        found = await page(monitor, group)
        said = found["diagnosis"]["sentence"]
        assert "Member c1 is alive and commits this offset again and again." in said
        key = said.partition("The next record's key is ")[2]
        assert key.startswith(("0-0; it is ", "1-0; it is ")), "the first of the three records"
        assert (found["deaf_members"], found["lag_over_time"][-1]["lag"]) == (1, 6)
        member.close()
        await eventually(lambda: state(monitor, group) == "STOP", 30)
        hint = "the group has no members: start one"
        await eventually(lambda: hint in row(monitor, group)["hints"], 20)  # type: ignore[index]
        assert row(monitor, group)["members"] == 0  # type: ignore[index]
        said = (await page(monitor, group))["diagnosis"]["sentence"]
        assert said.startswith("The group is empty: it has no members, and 6 records wait.")


async def test_idle_members_and_one_that_never_commits(
    kafka: RunningBroker, group: str, topic_name: str, join: Callable[..., RdMember]
) -> None:
    async with watching(kafka.bootstrap) as monitor:
        for number in range(3):
            join(f"c{number}")
        await eventually(lambda: (row(monitor, group) or {}).get("idle_members") == 1, 60)
        assert state(monitor, group) == "OK", "what was there before is none of its business"
        fill(kafka.bootstrap, topic_name, 2, 3)
        await eventually(lambda: state(monitor, group) == "STOP", 30)
        found = await page(monitor, group)
        assert {one["committed"] for one in found["partitions"]} == {None}
        assert any("no commit" in hint for hint in found["hints"])


async def test_a_group_of_the_new_protocol(
    kafka: RunningBroker, group: str, join: Callable[..., RdMember]
) -> None:
    async with watching(kafka.bootstrap) as monitor:
        member = join("c1", "consumer")
        await owns(member, 0, 1)
        for partition in (0, 1):
            await commit(member, partition, 7)
        await has_committed(monitor, group, 7, 7)
        await eventually(lambda: (row(monitor, group) or {}).get("members") == 1, 20)
        await commit(member, 1, 3)
        await eventually(lambda: state(monitor, group) == "REWIND", 20)
        found = await page(monitor, group)
        assert found["protocol"] == "consumer"
        (owner,) = found["owners"]
        assert owner["client"] == "c1"
        assert len(owner["partitions"]) == 2
        (fall,) = found["recent_regressions"]
        assert (fall["partition"], fall["from"], fall["to"]) == (1, 7, 3)
        assert "c1" in fall["owner"]
        assert found["lag"] == 4


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_topic_that_no_member_subscribes_to_any_more(
    protocol: str,
    kafka: RunningBroker,
    group: str,
    topic_name: str,
    join: Callable[..., RdMember],
) -> None:
    other = kafka.create_topic(f"{topic_name}-other", 1)
    async with watching(kafka.bootstrap) as monitor:
        member = join("c1", protocol)
        await owns(member, 0, 1)
        for partition in (0, 1):
            await commit(member, partition, 7)
        await has_committed(monitor, group, 7, 7)
        await asyncio.to_thread(member.subscribe, other)
        fill(kafka.bootstrap, topic_name, 2, 3)
        await eventually(
            lambda: (row(monitor, group) or {}).get("unread_topics") == [topic_name], 30
        )
        await asyncio.sleep(3)  # longer than the monitor's patience here
        found = await page(monitor, group)
        assert (found["state"], found["lag"], found["unread_topics"]) == ("OK", 0, [topic_name])
        unread = {one["topic"] for one in found["partitions"] if one["unread"]}
        read = {one["topic"] for one in found["partitions"] if not one["unread"]}
        assert (unread, topic_name in read) == ({topic_name}, False)
        (hint,) = [one for one in found["hints"] if "no member reads" in one]
        assert f"--group {group} --topic {topic_name} --delete-offsets" in hint


async def test_consumers_of_ours_sign_and_show_their_internal_lag(
    kafka: RunningBroker, group: str, topic_name: str
) -> None:
    options = ConsumerOptions(client_id="till", commit_interval_s=0.05)
    async with (
        watching(kafka.bootstrap) as monitor,
        Consumer(topic_name, group=group, bootstrap=kafka.bootstrap, options=options) as consumer,
    ):
        done = 0
        async for received in consumer:
            received.done()
            done += 1
            if done == 14:
                break

        def caught_up() -> bool:
            found = row(monitor, group)
            return found is not None and found["lag"] == 0 and found["members"] == 1

        await eventually(caught_up, 20)

        async def signed() -> bool:
            """Lags come from asking, signatures from reading the commits: either may be later."""
            of = (await page(monitor, group))["partitions"]
            return {one["internal_lag"] for one in of} == {0}

        await eventually(signed, 20)
        found = await page(monitor, group)
        newest = found["partitions"][0]["commits"][0]
        assert newest["by"]["client"] == "till"
        assert newest["by"]["member"] == found["owners"][0]["member"]


async def test_a_new_group_is_on_probation_until_it_keeps_up(
    kafka: RunningBroker, group: str, topic_name: str, join: Callable[..., RdMember]
) -> None:
    async with watching(kafka.bootstrap) as monitor:
        # Both at once and before it has members: it never was without lag.
        behind = [RdPartition(topic_name, partition, 1) for partition in (0, 1)]
        settings = {"bootstrap.servers": kafka.bootstrap, "group.id": group}
        with closing(RdConsumer(settings)) as nobody:
            await asyncio.to_thread(lambda: nobody.commit(offsets=behind, asynchronous=False))
        await eventually(lambda: state(monitor, group) == "STOP", 30)
        found = row(monitor, group)
        assert found is not None
        assert not found["probation"]["admitted"]
        assert any("backfill tier" in hint for hint in found["hints"])
        gauges = monitor.figures().gauges
        assert gauges["headgate_group_probation"]["main", group] == 1
        member = join("c1")
        await owns(member, 0, 1)
        for partition in (0, 1):
            await commit(member, partition, 7)
        await eventually(lambda: bool((row(monitor, group) or {})["probation"]["admitted"]), 30)


async def test_who_only_assigns_and_never_commits_is_named_as_what_cannot_be_seen(
    kafka: RunningBroker, group: str, topic_name: str
) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap, group_id=group, enable_auto_commit=False,
        auto_offset_reset="earliest",
    )  # fmt: skip
    async with watching(kafka.bootstrap) as monitor:
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic_name, 0)])
            assert (await consumer.getone()).offset == 0
            polled = monitor.clusters[0].status.polled_ms
            await eventually(lambda: monitor.clusters[0].status.polled_ms != polled, 20)
            assert row(monitor, group) is None
            assert "never commit" in monitor.groups()["cannot_be_seen"][0]
        finally:
            await consumer.stop()


async def test_it_outlives_a_broker_that_is_killed(
    start_broker: Callable[..., RunningBroker], topic_name: str
) -> None:
    broker = start_broker()
    broker.create_topic(topic_name, 2)
    fill(broker.bootstrap, topic_name, 2, 7)
    group = f"g-{topic_name}"
    member = RdMember(broker.bootstrap, topic_name, group, "c1")
    try:
        async with watching(broker.bootstrap) as monitor:
            await owns(member, 0, 1)
            await commit(member, 0, 7)
            await commit(member, 1, 7)
            await has_committed(monitor, group, 7, 7)
            assert state(monitor, group) == "OK"
            (cluster,) = monitor.clusters
            broker.kill()
            await eventually(lambda: not cluster.status.ok, 60)
            assert state(monitor, group) == "OK", "what is not known is not made up"
            await asyncio.to_thread(broker.restart)
            await eventually(lambda: cluster.status.ok and not cluster.status.commits, 60)
            await has_committed(monitor, group, 7, 7)
            await eventually(lambda: takes(member, 1, 4), 60)
            await eventually(lambda: state(monitor, group) == "REWIND", 30)
            (fall,) = cluster.watch.regressions
            assert (fall.partition, fall.from_offset, fall.to_offset) == (1, 7, 4)
    finally:
        member.close()


async def test_incident_b_beside_a_consumer_of_ours_shows_both_lags(
    kafka: RunningBroker, group: str, topic_name: str, join: Callable[..., RdMember]
) -> None:
    """Ours has done everything and has said so; the late commit is not its own."""
    options = ConsumerOptions(client_id="till", commit_interval_s=0.05)
    done: list[int] = []

    async def handle(received: Received) -> None:
        done.append(received.offset)

    async with watching(kafka.bootstrap) as monitor:
        first = join("c1")
        await owns(first, 0, 1)
        async with Consumer(
            topic_name, group=group, bootstrap=kafka.bootstrap, options=options
        ) as consumer:
            running = asyncio.create_task(consumer.run(handle, tasks=2))
            kept = await owns_one(first)
            moved = 1 - kept
            await commit(first, kept, 7)

            await has_committed(monitor, group, 7, 7)
            await commit(first, moved, 5)
            await eventually(lambda: state(monitor, group) == "REWIND", 20)
            found = next(
                one
                for one in (await page(monitor, group))["partitions"]
                if one["partition"] == moved
            )
            assert (found["lag"], found["internal_lag"], found["stuck_commit"]) == (2, 0, True)
            assert "till" in found["owner"]
            assert "c1" in found["owner_before"]
            consumer.stop()
            await running
