"""Processor time of the pure pieces of the hot path, one at a time.

    python loadtest/micro/pieces.py

Microseconds an event, best of several rounds, hot caches: for comparing two versions of a piece,
not for adding up. Prints Markdown.
"""

import asyncio
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from headgate.formats.decode import decode
from headgate.formats.json_text import KeyReader
from headgate.http.connection import (
    MAX_BYTES,
    FastConnection,
    FastConnections,
    PlainPosts,
    on_the_wire,
)
from headgate.model.content import (
    Comparison,
    Content,
    ContentCheck,
    Digester,
    examine_here,
    is_long,
)
from headgate.model.keys import KeyRule, partition_for
from headgate.model.outcome import Outcome, OutcomeName
from headgate.model.policy import TopicPolicy
from headgate.model.publish import Ticket
from headgate.model.reply import reply_of
from headgate.model.route import Route
from headgate.model.topics import TopicState
from headgate.native.chosen import framed
from plan import Plan
from wire import CONTENT_TYPES, encode
from workload import Shape, events

EVENTS = 50
ROUNDS = 7
ROUND_S = 0.05


def microseconds(call: Callable[[], object], per_call: int) -> float:
    """The best round's processor time per event."""
    best = float("inf")
    for _ in range(ROUNDS):
        calls, begin = 0, time.process_time()
        while (spent := time.process_time() - begin) < ROUND_S:
            for _ in range(20):
                call()
            calls += 20
        best = min(best, spent / calls)
    return best * 1e6 / per_call


def each(work: Callable[[bytes], object], values: list[bytes]) -> Callable[[], object]:
    def call() -> None:
        for value in values:
            work(value)

    return call


_COMPARISON = Comparison(b"fingerprint", ("/updated_at",), 4_000_000)
_ORDERS = ContentCheck(None, _COMPARISON)


def examine_one(value: bytes, content_type: bytes) -> object:
    """What canonical comparison adds to a small event that the scanner left, but for the order."""
    content = Content(value, content_type, value)
    return is_long(_ORDERS, content) or examine_here(_ORDERS, content)


Piece = tuple[str, Callable[[], object], int]  # name, what is called, events a call


def scanner_pieces(value: bytes, ndjson: bytes, array: bytes) -> list[Piece]:
    """Where the build has the scanner: all of cutting, validating, key, partition and digest."""
    if find_spec("headgate.native._scanner") is None:
        return []
    from headgate.native._scanner import Scanner

    found: list[Piece] = []
    digests: list[tuple[str, tuple[Any, ...]]] = [
        ("", (None,)),
        (" and digest", (b"fingerprint", b"value" + bytes(4))),
        (" and digest of the form", (b"fingerprint", b"canon" + bytes(4), ((b"at",),), 65_536)),
    ]
    for name, given in digests:
        scanner = Scanner(((b"id",),), 6, 128, sys.maxsize, *given)
        found += [
            (f"scan{name}, one JSON event", partial(scanner.one, value), 1),
            (f"scan{name}, NDJSON of 50", partial(scanner.lines, ndjson, EVENTS), EVENTS),
            (f"scan{name}, JSON array of 50", partial(scanner.elements, array, EVENTS), EVENTS),
        ]
    return found


class _Nothing:
    """Stands for all that is behind a connection: what remains is taking the request."""

    def __init__(self, posts: PlainPosts) -> None:
        self.plain_posts = posts
        self.is_leaving, self.header_max_bytes, self.idle_s = False, 8190, 75.0
        self.request_ids, self.fast = lambda: "", FastConnections()

    def begin(self, *request: object) -> bytes:
        return b""

    def write(self, data: bytes) -> None:
        """Take a response, like a transport."""

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str) -> None:
        return None


async def request_pieces(value: bytes) -> list[Piece]:
    """Taking a request whose head is known, and its answer: what calls that do it for all requests
    of a turn could save at most."""
    plan = Plan("http://h:1/v1/topics/t/events", events=1)
    head = next(iter(plan.requests())).data.partition(b"\r\n\r\n")[0]
    head = re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(value), head)
    data = head + b"\r\n\r\n" + value
    posts, request = PlainPosts(MAX_BYTES), framed(data)
    assert request is not None
    posts.heads.learn(request, "t", {b"host": b"h:1"})
    nothing: Any = _Nothing(posts)
    connection = FastConnection(nothing.begin, nothing.begin, posts, nothing)
    connection.connection_made(nothing)
    connection.data_received(data)
    ticket = Ticket("t", "shop", "0198c0de-0000-7000-8000-000000000000", 0.0)
    ticket.expect(1)
    ticket.put(0, Outcome(OutcomeName.PUBLISHED, 3, 4711, b"key-17", ticket.request_id, None, 1))
    return [
        ("find where a request ends, its head known", partial(framed, data), 1),
        (
            "take a request whose head is known, to the pipeline",
            partial(connection.data_received, data),
            1,
        ),
        ("make an answer", lambda: on_the_wire(reply_of(ticket), ticket.request_id), 1),
    ]


def pieces() -> list[Piece]:
    values = list(islice(events(Shape()), EVENTS))
    json_type = b"application/json"
    canonical = _COMPARISON.digest
    keys = [orjson.loads(value)["id"].encode() for value in values]
    digester, reader = Digester(b"fingerprint"), KeyReader(KeyRule.parse(["/id"]))
    policy, state = TopicPolicy("deals", "main"), TopicState("deals", "main", bytes(16), 6)
    route = Route(policy, state, reader, 128)
    bodies = {
        "one JSON event": (values[0], "single", 1),
        "NDJSON of 50": (encode(values, "ndjson"), "ndjson", EVENTS),
        "JSON array of 50": (encode(values, "array"), "array", EVENTS),
    }
    cut = [
        (f"cut {name}", partial(decode, body, {b"content-type": CONTENT_TYPES[kind]}), count)
        for name, (body, kind, count) in bodies.items()
    ]
    return [
        *cut,
        ("validate and read the key", each(reader, values), EVENTS),
        ("partition, key seen before", each(route.partition, keys), EVENTS),
        ("partition, murmur2", each(lambda key: partition_for(key, 6), keys), EVENTS),
        ("digest", each(digester.digest, values), EVENTS),
        ("digest, canonical", each(lambda value: canonical(value, json_type), values), EVENTS),
        ("examined, canonical", each(lambda value: examine_one(value, json_type), values), EVENTS),
        ("(orjson.loads, for scale)", each(orjson.loads, values), EVENTS),
        *asyncio.run(request_pieces(values[0])),
        *scanner_pieces(*(body for body, _, _ in bodies.values())),
    ]


def main() -> None:
    sys.stdout.write("| piece | us/event |\n| --- | --- |\n")
    for name, call, per_call in pieces():
        sys.stdout.write(f"| {name} | {microseconds(call, per_call):.2f} |\n")


if __name__ == "__main__":
    main()
