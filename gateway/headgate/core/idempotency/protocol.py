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

import re
import struct
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused
from headgate.native.chosen import digested

TOKEN_BYTES = 12
LONGEST_KEY = 255
CLAIM, RENEW, DONE, PARTLY, RELEASE = b"c", b"r", b"d", b"p", b"x"

IDEMPOTENCY_KEY = b"idempotency-key"
# Headers that change what is written. Not traceparent, Prefer or X-Request-Id: a retry has others.
_MATTER = (b"content-type", b"headgate-batch", b"headgate-burst", b"headgate-event-id",
           b"headgate-force", b"headgate-key", b"headgate-key*", b"headgate-timestamp",
           b"headgate-tombstone")  # fmt: skip
_MATTER_PREFIXES = (b"ce-", b"headgate-header-")

_OPERATION: Final = struct.Struct(">c16s12sd")
_KEY: Final = re.compile(rb"[!-~]{1,%d}" % LONGEST_KEY)

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


class ClaimVerdict:
    """A claim's answer. remembered: see `core.idempotency.remembered`; empty where nothing is.

    A class and no tuple for the reason for which `Record` is one, as are the others here of which
    each event has some.
    """

    __slots__ = ("remembered", "state")

    def __init__(self, state: ClaimState, remembered: bytes = b"") -> None:
        self.state: Final = state
        self.remembered: Final = remembered

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ClaimVerdict)
            and self.state is other.state
            and self.remembered == other.remembered
        )

    def __hash__(self) -> int:
        return hash((self.state, self.remembered))

    def __repr__(self) -> str:
        return f"ClaimVerdict({self.state}, {self.remembered!r})"


class Claim:
    """One name, claimed for one attempt.

    name: the entry in Redis.  fingerprint: 16 bytes over the content.  token: 12 bytes that no
    other attempt has.  keep_ms: how long the end is remembered.
    """

    __slots__ = ("fingerprint", "keep_ms", "name", "token")

    def __init__(self, name: bytes, fingerprint: bytes, token: bytes, keep_ms: float) -> None:
        self.name: Final = name
        self.fingerprint: Final = fingerprint
        self.token: Final = token
        self.keep_ms: Final = keep_ms

    def operation(self, letter: bytes, remembered: bytes = b"") -> "ClaimStep":
        """What the script is told of it."""
        packed = _OPERATION.pack(letter, self.fingerprint, self.token, self.keep_ms)
        return ClaimStep(self.name, packed + remembered)


class KeyedRequest:
    """A request with an Idempotency-Key.

    route: which endpoint, and where it points to beside the topic.  topic_id: Kafka's.
    refuse: the topic's redis_loss = "refuse".  content: its fingerprint, once that was made.
    """

    __slots__ = ("body", "content", "headers", "producer", "refuse", "route", "topic_id")

    def __init__(
        self,
        route: bytes,
        topic_id: bytes,
        producer: str,
        headers: Mapping[bytes, bytes],
        body: bytes,
        refuse: bool,
    ) -> None:
        self.route: Final = route
        self.topic_id: Final = topic_id
        self.producer: Final = producer
        self.headers: Final = headers
        self.body: Final = body
        self.refuse: Final = refuse
        self.content: bytes | None = None

    def fingerprint(self) -> bytes:
        """See `request_fingerprint`."""
        if self.content is None:
            self.content = request_fingerprint(self.route, self.headers, self.body)
        return self.content


class ClaimStep:
    """One step of the script: an entry's name, and letter, fingerprint, token, keep_ms, memory."""

    __slots__ = ("name", "packed")

    def __init__(self, name: bytes, packed: bytes) -> None:
        self.name: Final = name
        self.packed: Final = packed


class ClaimCall(NamedTuple):
    """One run of the script, its operations in order; a name may come several times.

    claim_ms: how long a claim stands for an attempt that says nothing more.
    """

    claim_ms: float
    operations: Sequence[ClaimStep]


def unpack_operation(packed: bytes) -> tuple[bytes, bytes, bytes, float, bytes]:
    """Return letter, fingerprint, token, keep_ms, remembered."""
    return *_OPERATION.unpack_from(packed), packed[_OPERATION.size :]


_ALONE: Final = {state.value: ClaimVerdict(state) for state in ClaimState}


def read_verdict(answer: bytes) -> ClaimVerdict:
    """Take the script's answer to a claim apart."""
    known = _ALONE.get(answer)  # most answers: there is nothing to be remembered
    return ClaimVerdict(ClaimState(answer[:1]), answer[1:]) if known is None else known


def read_key(value: bytes) -> bytes:
    """The key in an Idempotency-Key header: bare, or a quoted string as in the IETF draft.

    Raises Refused (malformed): keys have 1 to 255 visible ASCII characters.
    """
    key = value.strip()
    if len(key) >= 2 and key[:1] == key[-1:] == b'"':
        key = key[1:-1].replace(b'\\"', b'"').replace(b"\\\\", b"\\")
    if _KEY.fullmatch(key) is not None:
        return key
    detail = f"an Idempotency-Key has 1 to {LONGEST_KEY} visible ASCII characters"
    raise Refused(Failure(Reason.MALFORMED, detail))


class Names:
    """The entries in Redis of one scope, one for each key or id.

    Hashed: the parts are the clients' own texts of any length. topic_id and not the topic's name,
    because offsets in a topic that was recreated are other records.
    """

    __slots__ = ("_kind", "_owner", "_prefix", "_topic_id")

    def __init__(self, prefix: str, kind: bytes, topic_id: bytes, owner: bytes) -> None:
        self._prefix: Final = prefix.encode() + b":once:"
        self._kind: Final = kind
        self._topic_id: Final = topic_id
        self._owner: Final = owner

    def of(self, last: bytes) -> bytes:
        """The entry of a key or an id."""
        parts = [self._kind, self._topic_id, self._owner, last]
        return self._prefix + digested(b"", parts, b"")


def names_of_keys(prefix: str, topic_id: bytes, producer: str) -> Names:
    """Of Idempotency-Keys: scope (producer, topic, key)."""
    return Names(prefix, b"key", topic_id, producer.encode())


def names_of_ids(prefix: str, topic_id: bytes, producer: str) -> Names:
    """Of event ids: scope (topic, producer, id)."""
    return Names(prefix, b"id", topic_id, producer.encode())


def names_of_cloudevents(prefix: str, topic_id: bytes, source: str) -> Names:
    """Of CloudEvents, whoever posts them: scope (topic, source, id)."""
    return Names(prefix, b"ce", topic_id, source.encode())


def request_fingerprint(route: bytes, headers: Mapping[bytes, bytes], body: bytes) -> bytes:
    """16 bytes over what a request writes. route: which endpoint, and where it points to."""
    parts = [route]
    for name in sorted(headers):
        if name in _MATTER or name.startswith(_MATTER_PREFIXES):
            parts += (name, headers[name])
    parts.append(b"")
    return digested(b"request", parts, body)


def event_fingerprint(key: bytes | None, value: bytes | None, content_type: bytes | None) -> bytes:
    """16 bytes over what an event writes; None is no key, a tombstone, no content type."""
    there = bytes((key is not None, value is not None, content_type is not None))
    return digested(b"event", [there, key or b"", content_type or b""], value or b"")


def key_mismatch() -> Failure:
    """Another body came with a known Idempotency-Key."""
    return Failure(Reason.IDEMPOTENCY_MISMATCH, _KEY_MISMATCH)


def id_mismatch() -> Failure:
    """Other content came with a known event id."""
    return Failure(Reason.IDEMPOTENCY_MISMATCH, _ID_MISMATCH)
