"""Request identity: what Redis is told of Idempotency-Keys and event ids, and what it answers.

One entry stands for one name: a key of a producer and topic, or an event id. It holds whose claim
runs, until when, and what is remembered of events that ended well. The rules are stated in
`identity_rules` (Python, told the time) and in `backends/redis/lua/identity.lua`:

    claim     nothing known, or the last claim's time is over -> CLAIMED, with what is remembered;
              done -> DONE, with the same; another's claim runs -> RUNNING;
              other content -> MISMATCH
    renew     move the deadline of one's own claim; claim again what Redis has lost
    done      remember, and end one's claim: everything ended well
    partly    remember, and end one's claim: the rest may be tried again
    release   end one's claim: nothing to remember beyond what was

Only who holds the claim writes (or anyone, where nothing is known): what is remembered is what
ended well in the log, so an answer from memory is true whoever wrote it.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused

TOKEN_BYTES = 12
FINGERPRINT_BYTES = 16
LONGEST_KEY = 255
CLAIM, RENEW, DONE, PARTLY, RELEASE = b"c", b"r", b"d", b"p", b"x"

IDEMPOTENCY_KEY = b"idempotency-key"
# Headers that change what is written. Not traceparent, Prefer or X-Request-Id: a retry has others.
_MATTER = (b"content-type", b"headgate-batch", b"headgate-burst", b"headgate-event-id",
           b"headgate-force", b"headgate-key", b"headgate-key*", b"headgate-timestamp",
           b"headgate-tombstone")  # fmt: skip
_MATTER_PREFIXES = (b"ce-", b"headgate-header-")

_OPERATION = struct.Struct(">c16s12sd")

CONFLICT = Failure(
    Reason.IDEMPOTENCY_CONFLICT,
    "a request with the same Idempotency-Key or event id is under way, or its end is not known yet",
    None,
    1,
)
_KEY_MISMATCH = "this Idempotency-Key came before with another body or other headers"
_ID_MISMATCH = "this event id came before with other content"


class ClaimState(Enum):
    """How a claim was answered; the value is the first byte of the script's answer."""

    CLAIMED = b"C"
    DONE = b"D"
    RUNNING = b"R"
    MISMATCH = b"M"


class ClaimVerdict(NamedTuple):
    """A claim's answer. remembered: see `core.idempotency.remembered`; empty where nothing is."""

    state: ClaimState
    remembered: bytes = b""


class Claim(NamedTuple):
    """One name, claimed for one attempt.

    name: the entry in Redis.  fingerprint: 16 bytes over the content.  token: 12 bytes that no
    other attempt has.  keep_ms: how long the end is remembered.
    """

    name: bytes
    fingerprint: bytes
    token: bytes
    keep_ms: float

    def operation(self, letter: bytes, remembered: bytes = b"") -> "ClaimStep":
        """What the script is told of it."""
        packed = _OPERATION.pack(letter, self.fingerprint, self.token, self.keep_ms)
        return ClaimStep(self.name, packed + remembered)


class KeyedRequest(NamedTuple):
    """A request with an Idempotency-Key.

    route: which endpoint, and where it points to beside the topic.  topic_id: Kafka's.
    refuse: the topic's redis_loss = "refuse".
    """

    route: bytes
    topic_id: bytes
    producer: str
    headers: Mapping[bytes, bytes]
    body: bytes
    refuse: bool


class ClaimStep(NamedTuple):
    """One step of the script: an entry's name, and letter, fingerprint, token, keep_ms, memory."""

    name: bytes
    packed: bytes


class ClaimCall(NamedTuple):
    """One run of the script, its operations in order; a name may come several times.

    claim_ms: how long a claim stands for an attempt that says nothing more.
    """

    claim_ms: float
    operations: Sequence[ClaimStep]


def unpack_operation(packed: bytes) -> tuple[bytes, bytes, bytes, float, bytes]:
    """Return letter, fingerprint, token, keep_ms, remembered."""
    return *_OPERATION.unpack_from(packed), packed[_OPERATION.size :]


def read_verdict(answer: bytes) -> ClaimVerdict:
    """Take the script's answer to a claim apart."""
    return ClaimVerdict(ClaimState(answer[:1]), answer[1:])


def read_key(value: bytes) -> bytes:
    """The key in an Idempotency-Key header: bare, or a quoted string as in the IETF draft.

    Raises Refused (malformed): keys have 1 to 255 visible ASCII characters.
    """
    key = value.strip()
    if len(key) >= 2 and key[:1] == key[-1:] == b'"':
        key = key[1:-1].replace(b'\\"', b'"').replace(b"\\\\", b"\\")
    if 0 < len(key) <= LONGEST_KEY and all(0x21 <= sign <= 0x7E for sign in key):
        return key
    detail = f"an Idempotency-Key has 1 to {LONGEST_KEY} visible ASCII characters"
    raise Refused(Failure(Reason.MALFORMED, detail))


def key_name(prefix: str, topic_id: bytes, producer: str, key: bytes) -> bytes:
    """The entry of an Idempotency-Key: scope (producer, topic, key)."""
    return _name(prefix, b"key", topic_id, producer.encode(), key)


def id_name(prefix: str, topic_id: bytes, producer: str, event_id: str) -> bytes:
    """The entry of an event id: scope (topic, producer, id)."""
    return _name(prefix, b"id", topic_id, producer.encode(), event_id.encode())


def cloudevent_name(prefix: str, topic_id: bytes, source: bytes, event_id: str) -> bytes:
    """The entry of a CloudEvent, whoever posts it: scope (topic, source, id)."""
    return _name(prefix, b"ce", topic_id, source, event_id.encode())


def _name(prefix: str, *parts: bytes) -> bytes:
    # Hashed: the parts are the clients' own texts of any length. topic_id and not the topic's
    # name, because offsets in a topic that was recreated are other records.
    digest = blake2b(b"".join(_framed(parts)), digest_size=16)
    return prefix.encode() + b":once:" + digest.digest()


def request_fingerprint(route: bytes, headers: Mapping[bytes, bytes], body: bytes) -> bytes:
    """16 bytes over what a request writes. route: which endpoint, and where it points to."""
    state = blake2b(digest_size=FINGERPRINT_BYTES, person=b"request")
    relevant = sorted(
        name for name in headers if name in _MATTER or name.startswith(_MATTER_PREFIXES)
    )
    fields = [part for name in relevant for part in (name, headers[name])]
    state.update(b"".join(_framed((route, *fields, b""))))
    state.update(body)
    return state.digest()


def event_fingerprint(key: bytes | None, value: bytes | None, content_type: bytes | None) -> bytes:
    """16 bytes over what an event writes; None is no key, a tombstone, no content type."""
    state = blake2b(digest_size=FINGERPRINT_BYTES, person=b"event")
    there = bytes([key is not None, value is not None, content_type is not None])
    state.update(b"".join(_framed((there, key or b"", content_type or b""))))
    state.update(value or b"")
    return state.digest()


def _framed(parts: Sequence[bytes]) -> Iterator[bytes]:
    """Each part behind its length, so that no two lists of parts give the same bytes."""
    for part in parts:
        yield len(part).to_bytes(4, "big")
        yield part


def key_mismatch() -> Failure:
    """Another body came with a known Idempotency-Key."""
    return Failure(Reason.IDEMPOTENCY_MISMATCH, _KEY_MISMATCH)


def id_mismatch() -> Failure:
    """Other content came with a known event id."""
    return Failure(Reason.IDEMPOTENCY_MISMATCH, _ID_MISMATCH)
