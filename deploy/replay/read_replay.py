"""Reads exactly what a replay gave, one JSON object a line: point a consumer at its offsets.

    read_replay.py --url http://127.0.0.1:9090 ID > events.ndjson        (or HEADGATE_URL=...)
    KAFKA_PASSWORD=... read_replay.py --security-protocol SASL_SSL --sasl-mechanism SCRAM-SHA-512 \\
        --sasl-username me --ssl-cafile ca.pem ID > events.ndjson

Works for replays of mode seek and topic that are ready. Needs aiokafka; any client will do that
knows isolation.level=read_committed, can be assigned partitions and can seek.
"""

import argparse
import asyncio
import base64
import http.client
import json
import os
import ssl
import sys
import urllib.error
import urllib.request

try:
    from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
    from aiokafka.errors import KafkaError
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is missing: pip install headgate, or aiokafka and cramjam")


def main() -> None:
    args = arguments()
    try:
        asyncio.run(read(asked(args), way_in(args)))
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit("ended by SIGINT: not all was read")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)  # whoever read it has left, as `head` does
    except (KafkaError, OSError, ValueError) as error:
        sys.exit(f"the backfill tier cannot be read: {error}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    url = os.environ.get("HEADGATE_URL") or "http://127.0.0.1:9090"
    parser.add_argument("--url", default=url, help="the management port; default: HEADGATE_URL")
    token = os.environ.get("HEADGATE_TOKEN")
    parser.add_argument("--token", default=token, help="default: HEADGATE_TOKEN")
    parser.add_argument("--security-protocol", default="PLAINTEXT", help="of the backfill tier")
    parser.add_argument("--sasl-mechanism", default="PLAIN")
    parser.add_argument("--sasl-username", help="the password is in KAFKA_PASSWORD")
    parser.add_argument("--ssl-cafile", help="certificate authorities (PEM); default: the system's")
    parser.add_argument("id", help="of the replay")
    args = parser.parse_args()
    if args.security_protocol.startswith("SASL"):
        if not args.sasl_username:
            parser.error(f"--security-protocol {args.security_protocol} needs --sasl-username")
        if not os.environ.get("KAFKA_PASSWORD"):
            parser.error("--sasl-username: set KAFKA_PASSWORD to its password")
    return args


def asked(args: argparse.Namespace) -> dict:
    """Where the gateway says that the replay is to be read."""
    headers = {"Authorization": f"Bearer {args.token}"} if args.token else {}
    try:
        request = urllib.request.Request(f"{args.url}/v1/replays/{args.id}", headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            replay = json.load(answer)
            result = replay["result"]
    except urllib.error.HTTPError as error:
        sys.exit(f"{args.url} answers {error.code}: {error.read().decode(errors='replace')}")
    except (OSError, ValueError, http.client.HTTPException) as error:
        why = getattr(error, "reason", error)  # what urllib wraps
        sys.exit(f"--url {args.url} (or HEADGATE_URL) does not answer: {why}")
    except (KeyError, TypeError):
        sys.exit(f"--url {args.url} (or HEADGATE_URL) is no gateway's management port")
    if result is None:
        why = f": {replay['reason']}" if replay["reason"] else ""
        sys.exit(f"the replay is {replay['state']}{why}; there is nothing to read")
    return result


def way_in(args: argparse.Namespace) -> dict:
    """Who we are, as aiokafka is told."""
    has_tls = args.security_protocol.endswith("SSL")
    return {
        "security_protocol": args.security_protocol,
        "ssl_context": ssl.create_default_context(cafile=args.ssl_cafile) if has_tls else None,
        "sasl_mechanism": args.sasl_mechanism,
        "sasl_plain_username": args.sasl_username,
        "sasl_plain_password": os.environ.get("KAFKA_PASSWORD"),
    }


async def read(result: dict, way_in: dict) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=result["bootstrap_servers"],
        **way_in,
        isolation_level="read_committed",  # else records of aborted attempts come, too
        enable_auto_commit=False,
        auto_offset_reset="none",
    )
    ends = {
        TopicPartition(result["topic"], int(partition)): place["end"]
        for partition, place in result["offsets"].items()
        if place["start"] < place["end"]
    }
    try:
        await consumer.start()
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
