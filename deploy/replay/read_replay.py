"""Reads exactly what a replay gave, one JSON object a line: point a consumer at its offsets.

    read_replay.py --url http://127.0.0.1:9090 ID > events.ndjson

Works for replays of mode seek and topic that are ready. Needs aiokafka; any client will do that
knows isolation.level=read_committed, can be assigned partitions and can seek.
"""

import argparse
import asyncio
import base64
import json
import sys
import urllib.request

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:9090", help="the management port")
    parser.add_argument("--token", help="where the gateway asks for one")
    parser.add_argument("id", help="of the replay")
    args = parser.parse_args()
    headers = {"Authorization": f"Bearer {args.token}"} if args.token else {}
    request = urllib.request.Request(f"{args.url}/v1/replays/{args.id}", headers=headers)
    with urllib.request.urlopen(request) as answer:
        replay = json.load(answer)
    if replay["result"] is None:
        sys.exit(f"the replay is {replay['state']}: {replay['reason']}")
    asyncio.run(read(replay["result"]))


async def read(result: dict) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=result["bootstrap_servers"],
        isolation_level="read_committed",  # else records of aborted attempts come, too
        enable_auto_commit=False,
        auto_offset_reset="none",
    )
    ends = {
        TopicPartition(result["topic"], int(partition)): place["end"]
        for partition, place in result["offsets"].items()
        if place["start"] < place["end"]
    }
    await consumer.start()
    try:
        consumer.assign(list(ends))
        for place in ends:
            consumer.seek(place, result["offsets"][str(place.partition)]["start"])
        while ends:
            for place, records in (await consumer.getmany(*ends, timeout_ms=500)).items():
                for record in records:
                    if record.offset < ends[place]:
                        tell(record)
            ends = {one: end for one, end in ends.items() if await consumer.position(one) < end}
    finally:
        await consumer.stop()


def tell(record: ConsumerRecord) -> None:
    line = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text(record.key),
        "value": text(record.value),
        "headers": [[name, text(value)] for name, value in record.headers],
    }
    sys.stdout.write(json.dumps(line) + "\n")


def text(value: bytes | None) -> str | dict | None:
    """UTF-8 where it is, else base64."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


if __name__ == "__main__":
    main()
