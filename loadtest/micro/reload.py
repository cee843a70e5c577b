"""How long a reload of a large configuration holds up the event loop, and a client's requests.

    python loadtest/micro/reload.py [--topics 1000] [--tokens 10000] [--rounds 5]

A broker and a Redis of its own, and one worker of the gateway in this process, which is told to
reload as its parent would tell it. Meanwhile a task wakes up every millisecond, and a client in
another process posts one event after the other. Prints Markdown.
"""

import argparse
import asyncio
import hashlib
import http.client
import multiprocessing
import sys
import tempfile
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from headgate.config import load
from headgate.devstack.ports import LOOPBACK, free_port
from headgate.supervisor.worker import WorkerFiles, read_again
from headgate.wiring.app import Worker
from headgate.wiring.reloading import spare_the_collector
from targets import new_broker, new_redis

TOKEN = "token-0"
WATCHED_S = 2.0  # after a reload: what it has left for later


def configuration(bootstrap: str, redis: str, port: int, topics: int, tokens: int) -> str:
    lines = [
        f'[clusters.main]\nbootstrap_servers = "{bootstrap}"',
        f'[http]\nport = {port}\nmanagement_port = {free_port()}\n[auth]\nmode = "token"',
        f'[redis]\nurl = "{redis}"',
    ]
    for number in range(topics):
        name = f"topic-{number}" + ".*" * (number % 10 == 9)  # a tenth are globs
        suppress = ("raw", "off", "canonical")[number % 3]
        lines.append(f'[topics."{name}"]\nkey = "/id"\nsuppress = "{suppress}"')
    for number in range(tokens):
        digest = hashlib.sha256(b"token-%d" % number).hexdigest()
        lines.append(f'[producers.p{number}]\ntoken_sha256 = "{digest}"\ntopics = ["topic-*"]')
        lines.append(f"quota_events_per_s = {1_000_000 + number}")
    return "\n".join(lines)


async def create(bootstrap: str, topics: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=120_000)
    await admin.start()
    names = [f"topic-{number}" + ".eu" * (number % 10 == 9) for number in range(topics)]
    for start in range(0, topics, 100):
        wanted = [NewTopic(name, 1, 1) for name in names[start : start + 100]]
        await admin.create_topics(wanted)
    await admin.close()


def post_all_the_time(port: int, told: Connection) -> None:
    """Posts until told to end; answers each word on the way with the slowest answer since."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=30)
    head = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    slowest, number = 0.0, 0
    while True:
        if told.poll():
            if told.recv() == "end":
                return
            told.send(slowest)
            slowest = 0.0
        number += 1
        began = time.perf_counter()
        connection.request("POST", "/v1/topics/topic-0/events", b'{"id":"%d"}' % number, head)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 201:
            raise RuntimeError(f"answered {answer.status}")
        slowest = max(slowest, time.perf_counter() - began)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Ticker:
    """The latest wake-up since it was last asked."""

    def __init__(self) -> None:
        self.latest = 0.0

    async def run(self) -> None:
        while True:
            due = time.perf_counter() + 0.001
            await asyncio.sleep(0.001)
            self.latest = max(self.latest, time.perf_counter() - due)

    def taken(self) -> float:
        latest, self.latest = self.latest, 0.0
        return latest


async def measure(place: WorkerFiles, rounds: int) -> None:
    settings = load(place.config, {}, None)
    worker = Worker(settings, 1)
    await worker.start()
    spare_the_collector()
    ticker = Ticker()
    ticking = asyncio.create_task(ticker.run())
    ours, theirs = multiprocessing.Pipe()
    port = settings.http.port
    client = multiprocessing.get_context("spawn").Process(
        target=post_all_the_time, args=(port, theirs), daemon=True
    )
    client.start()
    say("| | reading and preparing s | longest stall ms | slowest answer ms |\n|---|---|---|---|")
    try:
        await asyncio.sleep(WATCHED_S)
        for number in range(rounds + 1):
            ours.send("slowest")
            await asyncio.to_thread(ours.recv)
            ticker.taken()
            began = time.perf_counter()
            if number:
                await read_again(worker, place)
            took = time.perf_counter() - began
            await asyncio.sleep(WATCHED_S)
            stall = ticker.taken()
            ours.send("slowest")
            slowest = await asyncio.to_thread(ours.recv)
            name = f"reload {number}" if number else "without"
            say(f"| {name} | {took:.2f} | {stall * 1e3:.1f} | {slowest * 1e3:.1f} |")
    finally:
        ours.send("end")
        client.join(5)
        ticking.cancel()
        await worker.drain()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as ending:
        folder = Path(name)
        broker, redis = new_broker(folder, ending), new_redis(folder, ending)
        file = folder / "headgate.toml"
        text = configuration(broker.bootstrap, redis.url, free_port(), args.topics, args.tokens)
        file.write_text(text)
        asyncio.run(create(broker.bootstrap, args.topics))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(measure(WorkerFiles(file, {}, folder, 0), args.rounds))


if __name__ == "__main__":
    main()
