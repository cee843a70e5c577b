"""The yardstick: what twenty lines of aiohttp and aiokafka cost, without any hygiene.

Kept deliberately plain and deliberately fair: uvloop, orjson, no access log, acks=all, idempotent,
aiokafka's defaults otherwise, one process. It checks nothing and suppresses nothing.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator

import orjson
import uvloop
from aiohttp import web
from aiokafka import AIOKafkaProducer
from aiokafka.structs import RecordMetadata

PRODUCER = web.AppKey("producer", AIOKafkaProducer)
TOPIC = web.AppKey("topic", str)


async def publish(app: web.Application, value: bytes, key: str) -> RecordMetadata:
    return await app[PRODUCER].send_and_wait(app[TOPIC], value, key=key.encode())


def answer(body: object) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")


async def post_event(request: web.Request) -> web.Response:
    body = await request.read()
    sent = await publish(request.app, body, orjson.loads(body)["id"])
    return answer({"outcome": "published", "partition": sent.partition, "offset": sent.offset})


async def post_batch(request: web.Request) -> web.Response:
    body = await request.read()
    if request.content_type == "application/x-ndjson":
        values = [(line, orjson.loads(line)["id"]) for line in body.split(b"\n") if line]
    else:
        values = [(orjson.dumps(event), event["id"]) for event in orjson.loads(body)]
    acks = await asyncio.gather(*(publish(request.app, *value) for value in values))
    outcomes = [
        {"outcome": "published", "partition": sent.partition, "offset": sent.offset}
        for sent in acks
    ]
    return answer({"summary": {"published": len(acks)}, "outcomes": outcomes})


def build_app(bootstrap: str, topic: str) -> web.Application:
    async def producer(app: web.Application) -> AsyncIterator[None]:
        kafka = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
        await kafka.start()
        app[PRODUCER] = kafka
        yield
        await kafka.stop()

    app = web.Application()
    app[TOPIC] = topic
    app.cleanup_ctx.append(producer)
    app.router.add_post("/events", post_event)
    app.router.add_post("/batches", post_batch)
    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True, help="host:port of a broker")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    web.run_app(
        build_app(options.bootstrap, options.topic),
        host="127.0.0.1",
        port=options.port,
        access_log=None,
        print=None,
        loop=uvloop.new_event_loop(),
    )


if __name__ == "__main__":
    main()
