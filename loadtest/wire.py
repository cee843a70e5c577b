"""HTTP/1.1 as the generator needs it: requests as bytes, a minimal reader of answers. No sockets.

Minimal on purpose: the generator shares the machine with what it measures, so it must be several
times cheaper. Only answers with a Content-Length are understood (anything else raises).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, cycle, islice
from typing import Literal, NamedTuple, get_args

import orjson

from orders import key_of

Encoding = Literal["single", "ndjson", "array", "envelope"]
ENCODINGS = get_args(Encoding)
Identity = Literal["none", "key", "id"]  # no name, an Idempotency-Key a request, an id an event
IDENTITIES = get_args(Identity)

CONTENT_TYPES = {
    "single": b"application/json",
    "ndjson": b"application/x-ndjson",
    "array": b"application/json",
    "envelope": b"application/vnd.headgate.batch+json",
}
NAME = b"0192f5aa-0000-7000-8000-%012x"  # as long as a UUID
# Good ends of an event (docs/publish/answers.md): what counts as acknowledged.
# `shared`: published by the record of an equal event that was under way, so the log has no other.
# Summaries of batches count those as published.
GOOD = frozenset({"published", "shared", "unchanged", "superseded", "duplicate", "held", "spooled"})
# Ends after which the event may or may not be in the log. A 5xx without a reason is one of them.
UNCERTAIN = frozenset({"unknown", "timeout", "reset"})
HEAD_END = b"\r\n\r\n"
SUMMARY = b'{"summary":'
KEY_PLACE = b"{key}"
NUMBER_PLACE = "{number}"  # in addresses and names of topics


class Request(NamedTuple):
    data: bytes
    events: int


class Answer(NamedTuple):
    status: int
    body: bytes
    keep_alive: bool


def requests(
    values: Iterable[bytes],
    encoding: Encoding,
    batch: int,
    host: str,
    paths: Iterable[str],
    identity: Identity = "none",
    first: int = 0,
    producers: Sequence[str] = (),
) -> Iterator[Request]:
    """Requests of `batch` events each (one for `single`) to the paths in turn, until the values
    end.

    `KEY_PLACE` in a path stands for the key of the request's first event.  first: of the numbers
    that `identity` makes names of.  producers: who posts, in turn; none: nobody names itself.
    """
    templates = cycle(
        b"POST %b HTTP/1.1\r\nHost: %b\r\nContent-Type: %b\r\n"
        % (path.encode(), host.encode(), CONTENT_TYPES[encoding])
        for path in paths
    )
    named = cycle([b"Headgate-Producer: %b\r\n" % one.encode() for one in producers] or [b""])
    source, names = iter(values), map(NAME.__mod__, count(first))
    while chunk := list(islice(source, 1 if encoding == "single" else batch)):
        if encoding == "envelope":
            body = envelope(chunk, names if identity == "id" else None)
        else:
            body = encode(chunk, encoding)
        template = next(templates)
        keyed = KEY_PLACE in template
        head = template.replace(KEY_PLACE, key_of(chunk[0])) if keyed else template
        head += next(named)
        if identity == "key":
            head += b"Idempotency-Key: %b\r\n" % next(names)
        elif identity == "id" and encoding == "single":
            head += b"Headgate-Event-Id: %b\r\n" % next(names)
        yield Request(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body), len(chunk))


def encode(values: list[bytes], encoding: Encoding) -> bytes:
    if encoding == "single":
        return values[0]
    if encoding == "ndjson":
        return b"\n".join(values) + b"\n"
    return b"[" + b",".join(values) + b"]"


def envelope(values: list[bytes], ids: Iterator[bytes] | None) -> bytes:
    """The batch format whose events have members of their own. ids: None where they have none."""
    if ids is None:
        events = [b'{"value":%b}' % value for value in values]
    else:
        events = [b'{"id":"%b","value":%b}' % (next(ids), value) for value in values]
    return b'{"events":[' + b",".join(events) + b"]}"


class AnswerReader:
    """Collects bytes of one connection until an answer is whole (one request at a time)."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> Answer | None:
        buffer = self._buffer + data if self._buffer else data
        end = buffer.find(HEAD_END)
        if end < 0:
            self._buffer = buffer
            return None
        head = buffer[:end].lower()
        start = end + len(HEAD_END)
        stop = start + content_length(head)
        if len(buffer) < stop:
            self._buffer = buffer
            return None
        self._buffer = buffer[stop:]
        return Answer(int(head[9:12]), buffer[start:stop], b"connection: close" not in head)


def content_length(head: bytes) -> int:
    """Of a lower-cased answer head, in bytes. Raises ValueError where there is none."""
    at = head.find(b"content-length:")
    if at < 0:
        raise ValueError(f"an answer without Content-Length: {head[:200]!r}")
    end = head.find(b"\r\n", at)
    return int(head[at + 15 : end if end >= 0 else None])


def outcomes(answer: Answer, events: int) -> Counter[str]:
    """How the events of one request ended: outcomes, or the reason where the request failed."""
    body = answer.body
    if body.startswith(SUMMARY):
        # The summary alone: decoding 50 outcomes would cost the generator more than sending them.
        return Counter(orjson.loads(body[len(SUMMARY) : body.index(b"}") + 1]))
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Counter({f"status {answer.status}": events})
    if "summary" in document:
        return Counter(document["summary"])
    if answer.status < 300 and "outcome" in document:
        is_shared = document["outcome"] == "published" and document.get("records") == 0
        return Counter({"shared" if is_shared else document["outcome"]: events})
    if answer.status < 300 and "offset" in document:  # kafka-pixy tells where, in no other words
        return Counter({"published": events})
    return Counter({document.get("reason", f"status {answer.status}"): events})


def acknowledged(ends: Counter[str]) -> int:
    """How many of these events ended well."""
    return sum(count for end, count in ends.items() if end in GOOD)


def uncertain(ends: Counter[str]) -> int:
    """How many of these events may or may not be in the log."""
    return sum(n for end, n in ends.items() if end in UNCERTAIN or end.startswith("status 5"))
