"""The yardstick: what twenty lines of aiohttp and aiokafka cost, without any hygiene.

Kept deliberately plain and deliberately fair: uvloop, orjson, no access log, acks=all, idempotent,
aiokafka's defaults otherwise, one process. It checks nothing and suppresses nothing. `--client
librdkafka` is the same handler on the other client of Kafka that Python has.
"""

import argparse
import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple

import orjson
import uvloop
from aiohttp import web
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, KafkaException, Message, Producer

# Publishes (value, key) and waits until all replicas have it; the answer is partition and offset.
Publish = Callable[[bytes, bytes], Awaitable[tuple[int, int]]]
PUBLISH: web.AppKey[Publish] = web.AppKey("publish")
PATH = web.AppKey("path", list[str])


class Options(NamedTuple):
    bootstrap: str
    topic: str
    port: int
    key: str
    client: str


async def aiokafka(options: Options, app: web.Application) -> AsyncIterator[None]:
    kafka = AIOKafkaProducer(
        bootstrap_servers=options.bootstrap, acks="all", enable_idempotence=True
    )

    async def publish(value: bytes, key: bytes) -> tuple[int, int]:
        sent = await kafka.send_and_wait(options.topic, value, key=key)
        return sent.partition, sent.offset

    await kafka.start()
    app[PUBLISH] = publish
    yield
    await kafka.stop()


async def librdkafka(options: Options, app: web.Application) -> AsyncIterator[None]:
    """Its acknowledgements come in a thread of their own and are handed to the loop one by one."""
    settings = {"bootstrap.servers": options.bootstrap, "acks": "all", "enable.idempotence": True}
    kafka = Producer({**settings, "linger.ms": 2})
    loop, ended = asyncio.get_running_loop(), threading.Event()

    def publish(value: bytes, key: bytes) -> Awaitable[tuple[int, int]]:
        future = loop.create_future()

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                result = (message.partition(), message.offset())
                loop.call_soon_threadsafe(settle, future, result)
            else:
                loop.call_soon_threadsafe(fail, future, KafkaException(error))

        kafka.produce(options.topic, value, key, on_delivery=delivered)
        return future

    def poll() -> None:
        while not ended.is_set():
            kafka.poll(0.1)

    poller = threading.Thread(target=poll)
    poller.start()
    app[PUBLISH] = publish
    yield
    ended.set()
    poller.join()


def settle(future: asyncio.Future[Any], result: tuple[int, int]) -> None:
    if not future.done():  # its client may have left
        future.set_result(result)


def fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


CLIENTS = {"aiokafka": aiokafka, "librdkafka": librdkafka}


def key_of(event: Any, path: list[str]) -> bytes:
    key: str = reduce(getitem, path, event)
    return key.encode()


def answer(body: object) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")


def outcome(sent: tuple[int, int]) -> dict[str, object]:
    return {"outcome": "published", "partition": sent[0], "offset": sent[1]}


async def post_event(request: web.Request) -> web.Response:
    body, app = await request.read(), request.app
    return answer(outcome(await app[PUBLISH](body, key_of(orjson.loads(body), app[PATH]))))


async def post_batch(request: web.Request) -> web.Response:
    body, app = await request.read(), request.app
    publish, path = app[PUBLISH], app[PATH]
    if request.content_type == "application/x-ndjson":
        values = [(line, key_of(orjson.loads(line), path)) for line in body.split(b"\n") if line]
    else:
        values = [(orjson.dumps(event), key_of(event, path)) for event in orjson.loads(body)]
    acks = await asyncio.gather(*(publish(*value) for value in values))
    return answer({"summary": {"published": len(acks)}, "outcomes": [outcome(a) for a in acks]})


def build_app(options: Options) -> web.Application:
    app = web.Application()
    app[PATH] = options.key.split("/")[1:]
    app.cleanup_ctx.append(lambda app: CLIENTS[options.client](options, app))
    app.router.add_post("/events", post_event)
    app.router.add_post("/batches", post_batch)
    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True, help="host:port of a broker")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key", default="/id", help="where the key is in the document")
    parser.add_argument("--client", choices=CLIENTS, default="aiokafka")
    options = Options(**vars(parser.parse_args()))
    web.run_app(
        build_app(options),
        host="127.0.0.1",
        port=options.port,
        access_log=None,
        print=None,
        loop=uvloop.new_event_loop(),
    )


if __name__ == "__main__":
    main()
