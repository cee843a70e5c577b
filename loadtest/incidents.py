"""Incidents B and C of consumer groups, made live on a local stack, for somebody who watches.

    headgate dev                                                    # in one terminal
    headgate monitor --config .headgate/headgate.toml               # in another one
    python loadtest/incidents.py b --config .headgate/headgate.toml
    python loadtest/incidents.py c --config .headgate/headgate.toml

b: a late commit of a partition's former owner sets the group back; it lags, and nobody knows why.
c: two groups are paused, one of `headgate.consumer` and one of plain aiokafka; members come and
go. The plain one's pause is lost, and it reads on. What the script does it says as it does it; it
ends after --seconds and leaves its groups and topics (`incident-b`, `incident-c`) there.
"""

import argparse
import asyncio
import os
import sys
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # rd_member.py: a librdkafka member that does as told

from headgate.config import Settings, load  # noqa: E402
from headgate.config.problems import ConfigError  # noqa: E402
from headgate.consumer import Consumer, ConsumerOptions  # noqa: E402
from headgate.redis.pauses import (  # noqa: E402
    ALL,
    Intent,
    RedisPauses,
)
from support.kafka.rd_member import RdMember  # noqa: E402

B, C, PLAIN = "incident-b", "incident-c", "incident-c-plain"
PARTITIONS = 2
_POLLS = 3  # of the monitor, so that it has surely seen who owned a partition before it moves
_DRAIN_S = 12.0  # the monitor forgives commits of the first ten seconds of a pause


def say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')}  {text}\n")
    sys.stdout.flush()


def create_topic(bootstrap: str, name: str) -> None:
    """A topic of two partitions, unless it is there from last time."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
        with suppress(KafkaException):
            future.result()


async def write(bootstrap: str, topic: str, count: int) -> int:
    """Write to each partition; return where partition 0 ends."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            for partition in range(PARTITIONS):
                sent = await producer.send_and_wait(topic, b"%d" % number, partition=partition)
    return int(sent.offset) + 1


# ---- incident B


async def incident_b(bootstrap: str, poll_s: float, seconds: float) -> None:
    """c1 commits late what c2 has passed already."""
    create_topic(bootstrap, B)
    end = await write(bootstrap, B, 7)
    async with AsyncExitStack() as ending:
        first = _member(bootstrap, "c1", ending)
        await _until_owns(first, PARTITIONS)
        for partition in range(PARTITIONS):
            await asyncio.to_thread(first.commit, partition, end - 2)
        say(
            f"c1 owns both partitions of {B}, has committed {end - 2}, and works on the next record"
        )
        await asyncio.sleep(_POLLS * poll_s)
        second = _member(bootstrap, "c2", ending)
        await _until_owns(second, 1)
        await _until_owns(first, 1)
        (moved,) = await asyncio.to_thread(second.owned)
        await asyncio.to_thread(second.commit, moved, end)
        await asyncio.to_thread(first.commit, 1 - moved, end)
        say(f"partition {moved} has moved to c2, which does all that is left and commits {end}")
        await asyncio.sleep(_POLLS * poll_s)
        await asyncio.to_thread(first.commit, moved, end - 2)
        say(f"c1 is done with its record and commits {end - 2}: the broker takes it")
        say(f"GET /v1/groups/{B}: state REWIND, stuck_commit, lag 2, who owned it before and after")
        await asyncio.sleep(seconds)


def _member(bootstrap: str, client: str, ending: AsyncExitStack) -> RdMember:
    member = RdMember(bootstrap, B, B, client)
    ending.callback(member.close)
    return member


async def _until_owns(member: RdMember, count: int) -> None:
    for _ in range(300):
        if len(await asyncio.to_thread(member.owned)) == count:
            return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"no member owns {count} partitions: is a consumer of {B} still running?")


# ---- incident C


async def incident_c(bootstrap: str, settings: Settings, seconds: float) -> None:
    """Pause two groups, then let members come and go."""
    url = settings.redis.url
    if url is None:
        raise SystemExit("incident C needs redis.url: pause intent is kept there")
    create_topic(bootstrap, C)
    store = RedisPauses(url)
    intent = Intent(ALL, "incident-c")
    async with AsyncExitStack() as ending:
        ending.push_async_callback(store.close)
        for group in (C, PLAIN):
            ending.push_async_callback(store.resume, group, intent)
        writing = asyncio.create_task(_keep_writing(bootstrap))
        ending.callback(writing.cancel)
        plain = await _plain(bootstrap, ending)
        await _ours(bootstrap, store, ending)
        say(f"{C} (headgate.consumer) and {PLAIN} (aiokafka alone) read 10 records a second")
        await asyncio.sleep(5)
        for group in (C, PLAIN):
            await store.pause(group, intent, "loadtest/incidents.py", int(time.time() * 1000))
        plain.pause(*plain.assignment())
        say("both are paused: by the store of intent, and by AIOKafkaConsumer.pause()")
        await asyncio.sleep(_DRAIN_S)
        say("a second member of each comes, as in a deploy")
        await _plain(bootstrap, ending)
        await _ours(bootstrap, store, ending)
        say(f"GET /v1/groups/{PLAIN}: read_while_paused; GET /v1/groups/{C}: it stands still")
        await asyncio.sleep(seconds)


async def _keep_writing(bootstrap: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        while True:
            for partition in range(PARTITIONS):
                await producer.send(C, b"x", partition=partition)
            await asyncio.sleep(0.2)


async def _plain(bootstrap: str, ending: AsyncExitStack) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(
        C, bootstrap_servers=bootstrap, group_id=PLAIN, auto_commit_interval_ms=500
    )
    await consumer.start()
    ending.push_async_callback(consumer.stop)
    reading = asyncio.create_task(_read(consumer))
    ending.callback(reading.cancel)
    return consumer


async def _read(consumer: AIOKafkaConsumer) -> None:
    with suppress(KafkaError):
        while True:
            await consumer.getmany(timeout_ms=500)


async def _ours(bootstrap: str, store: RedisPauses, ending: AsyncExitStack) -> None:
    options = ConsumerOptions(client_id="incident-c", commit_interval_s=0.5)
    consumer = Consumer(C, group=C, bootstrap=bootstrap, options=options, pauses=store)
    await ending.enter_async_context(consumer)
    handling = asyncio.create_task(_handle(consumer))
    ending.callback(handling.cancel)


async def _handle(consumer: Consumer) -> None:
    async for received in consumer:
        received.done()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("incident", choices=["b", "c"])
    parser.add_argument("--config", type=Path, required=True, metavar="F")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to stay")
    chosen = parser.parse_args()
    try:
        settings = load(chosen.config, os.environ)
    except ConfigError as error:
        sys.exit(str(error))
    cluster = next(one for one in settings.clusters.values() if one.tier == "ingest")
    bootstrap = ",".join(cluster.bootstrap_servers)
    with suppress(KeyboardInterrupt):
        if chosen.incident == "b":
            poll_s = settings.monitor.interval_ms / 1000
            asyncio.run(incident_b(bootstrap, poll_s, chosen.seconds))
        else:
            asyncio.run(incident_c(bootstrap, settings, chosen.seconds))


if __name__ == "__main__":
    main()
