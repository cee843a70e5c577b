"""Request identity: names of Idempotency-Keys and event ids, the script's messages, its rules.

One entry is for one name: a key of a producer and topic, or an event id. It has the token and the
deadline of the current claim, and the remembered outcomes of successful events. The rules are in
Python below and in `identity.lua`:

    claim     no entry, or the last claim has expired -> CLAIMED, with the remembered outcomes;
              done -> DONE, with the same; another attempt has the claim -> RUNNING;
              other content -> MISMATCH
    renew     move the deadline of the own claim; claim again if Redis has lost the entry
    done      remember the outcomes, and end the own claim: all events were successful
    partly    remember the outcomes, and end the own claim: the other events may be tried again
    release   end the own claim without new outcomes

Only the holder of the claim writes (or any process, if there is no entry). Remembered events are in
the log, so a response from memory is right, whichever gateway wrote them.
"""

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason, Refused
from headgate.model.publish import Attempt, Claim
from headgate.native.chosen import digested

LONGEST_KEY = 255

IDEMPOTENCY_KEY = b"idempotency-key"
# Headers that affect the records. A retry has another traceparent, Prefer or X-Request-Id.
_MATTER = (b"content-type", b"headgate-batch", b"headgate-burst", b"headgate-event-id",
           b"headgate-force", b"headgate-key", b"headgate-key*", b"headgate-timestamp",
           b"headgate-tombstone")  # fmt: skip
_MATTER_PREFIXES = (b"ce-", b"headgate-header-")

_KEY: Final = re.compile(rb"[!-~]{1,%d}" % LONGEST_KEY)

CONFLICT = Failure(
    Reason.IDEMPOTENCY_CONFLICT,
    "a request with the same Idempotency-Key or event id is under way, or its end is not known yet",
    retry_after_s=1,
)
_KEY_MISMATCH = (
    "this Idempotency-Key came before with another body or other headers: "
    "repeat a request unchanged, and give each new request a new key"
)
_ID_MISMATCH = "this event id came before with other content: give each new event a new id"


class ClaimState(Enum):
    """The verdict on a claim; the value is the first byte of the script's reply."""

    CLAIMED = b"C"
    DONE = b"D"
    RUNNING = b"R"
    MISMATCH = b"M"


class ClaimVerdict(NamedTuple):
    """A claim's verdict.

    Attributes:
        remembered: Outcomes as `pack_outcomes` writes them; empty if none are remembered.
    """

    state: ClaimState
    remembered: bytes = b""


class KeyedRequest:
    """A request with an Idempotency-Key.

    Args:
        route: Endpoint, and its target besides the topic.
        topic_id: Kafka's id of the topic.
        producer: Name of the producer.
        headers: Headers by name in lower case.
        body: Body of the request.
        refuse: The topic has redis_loss = "refuse".

    Attributes:
        content: Fingerprint of the request, once computed.
    """

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
        """Return `request_fingerprint`, computed once."""
        if self.content is None:
            self.content = request_fingerprint(self.route, self.headers, self.body)
        return self.content


# ---- steps of the script, and the outcomes that Redis remembers


TOKEN_BYTES = 12
CLAIM, RENEW, DONE, PARTLY, RELEASE = b"c", b"r", b"d", b"p", b"x"
_OPERATION: Final = struct.Struct(">c16s12sd")


class ClaimStep:
    """A step of the script: an entry's name, and the packed operation."""

    __slots__ = ("name", "packed")

    def __init__(self, name: bytes, packed: bytes) -> None:
        self.name: Final = name
        self.packed: Final = packed


def step_of(claim: Claim, letter: bytes, remembered: bytes = b"") -> ClaimStep:
    """Return a step of the script for a claim."""
    packed = _OPERATION.pack(letter, claim.fingerprint, claim.token, claim.keep_ms)
    return ClaimStep(claim.name, packed + remembered)


def unpack_operation(packed: bytes) -> tuple[bytes, bytes, bytes, float, bytes]:
    """Return letter, fingerprint, token, keep_ms and the remembered outcomes."""
    return *_OPERATION.unpack_from(packed), packed[_OPERATION.size :]


FULL_BYTES = 262_144  # above it, only codes and positions are stored, not keys and ids
# Texts, because another version of the gateway may number the members of the enum differently.
_CODES = {name: name.value[:2] for name in OutcomeName}
_Row = tuple[int, str, int, int, bytes | None, str | None]
_decode = msgspec.msgpack.Decoder(list[_Row]).decode
_encode = msgspec.msgpack.Encoder().encode


def pack_outcomes(outcomes: Iterable[tuple[int, Outcome]]) -> bytes:
    """Pack successful outcomes with their indexes in the request."""
    rows = [
        (index, _CODES[each.name], each.partition, each.offset, each.key, each.event_id)
        for index, each in outcomes
    ]
    packed = _encode(rows)
    if len(packed) <= FULL_BYTES:
        return packed
    return _encode([(*row[:4], None, None) for row in rows])


def unpack_outcomes(remembered: bytes) -> dict[int, Outcome]:
    """Return the remembered outcomes as duplicates, by index in the request."""
    rows = _decode(remembered) if remembered else ()
    return {row[0]: Outcome(OutcomeName.DUPLICATE, *row[2:]) for row in rows}


def final_steps(
    attempt: Attempt, outcomes: Sequence[Outcome | None]
) -> Iterator[tuple[bytes, ClaimStep]]:
    """Yield the final steps of an attempt, each with the token of its claim.

    Call it when no outcome can change any more.
    """
    ended = [attempt.late.get(index, outcome) for index, outcome in enumerate(outcomes)]
    for index, claim in attempt.events.items():
        outcome = ended[index]
        if outcome is not None and outcome.failure is None:
            yield claim.token, step_of(claim, DONE, pack_outcomes([(0, outcome)]))
        else:
            yield claim.token, step_of(claim, RELEASE)
    if attempt.request is not None:
        if attempt.late:
            attempt.answer_repeats(ended)
        yield attempt.request.token, _step_of_request(attempt.request, ended)


def _step_of_request(claim: Claim, ended: Sequence[Outcome | None]) -> ClaimStep:
    successful = [
        (index, outcome)
        for index, outcome in enumerate(ended)
        if outcome is not None and outcome.failure is None
    ]
    if not successful:
        return step_of(claim, RELEASE)
    letter = DONE if len(successful) == len(ended) else PARTLY
    return step_of(claim, letter, pack_outcomes(successful))


class ClaimCall(NamedTuple):
    """One run of the script, its operations in order; a name may come several times.

    Attributes:
        claim_ms: Life of a claim without a renewal, in milliseconds.
        operations: The operations.
    """

    claim_ms: float
    operations: Sequence[ClaimStep]


_ALONE: Final = {state.value: ClaimVerdict(state) for state in ClaimState}


def read_verdict(answer: bytes) -> ClaimVerdict:
    """Parse the script's reply to a claim."""
    verdict = _ALONE.get(answer)  # most replies: no outcomes are remembered
    return ClaimVerdict(ClaimState(answer[:1]), answer[1:]) if verdict is None else verdict


def read_key(value: bytes) -> bytes:
    """Return the key in an Idempotency-Key header: bare, or a quoted string as in the IETF draft.

    Raises:
        Refused: The key is malformed: it must have 1 to 255 visible ASCII characters.
    """
    key = value.strip()
    if len(key) >= 2 and key[:1] == key[-1:] == b'"':
        key = key[1:-1].replace(b'\\"', b'"').replace(b"\\\\", b"\\")
    if _KEY.fullmatch(key) is not None:
        return key
    detail = f"an Idempotency-Key has 1 to {LONGEST_KEY} visible ASCII characters"
    raise Refused(Failure(Reason.MALFORMED, detail))


class Names:
    """The names of one scope's entries in Redis, one for each key or id.

    The names are hashes, because the parts are clients' texts of any length. They contain the
    topic's id and not its name, because offsets in a recreated topic are other records.
    """

    __slots__ = ("_kind", "_owner", "_prefix", "_topic_id")

    def __init__(self, prefix: str, kind: bytes, topic_id: bytes, owner: bytes) -> None:
        self._prefix: Final = prefix.encode() + b":once:"
        self._kind: Final = kind
        self._topic_id: Final = topic_id
        self._owner: Final = owner

    def of(self, last: bytes) -> bytes:
        """Return the name of the entry of a key or an id."""
        parts = [self._kind, self._topic_id, self._owner, last]
        return self._prefix + digested(b"", parts, b"")


def names_of_keys(prefix: str, topic_id: bytes, producer: str) -> Names:
    """Return the names of Idempotency-Keys: scope (producer, topic, key)."""
    return Names(prefix, b"key", topic_id, producer.encode())


def names_of_ids(prefix: str, topic_id: bytes, producer: str) -> Names:
    """Return the names of event ids: scope (topic, producer, id)."""
    return Names(prefix, b"id", topic_id, producer.encode())


def names_of_cloudevents(prefix: str, topic_id: bytes, source: str) -> Names:
    """Return the names of CloudEvents of any producer: scope (topic, source, id)."""
    return Names(prefix, b"ce", topic_id, source.encode())


def request_fingerprint(route: bytes, headers: Mapping[bytes, bytes], body: bytes) -> bytes:
    """Return a digest of 16 bytes of a request's effect.

    Args:
        route: Endpoint, and its target besides the topic.
        headers: Headers by name in lower case.
        body: Body of the request.
    """
    parts = [route]
    for name in sorted(headers):
        if name in _MATTER or name.startswith(_MATTER_PREFIXES):
            parts += (name, headers[name])
    parts.append(b"")
    return digested(b"request", parts, body)


def event_fingerprint(key: bytes | None, value: bytes | None, content_type: bytes | None) -> bytes:
    """Return a digest of 16 bytes of an event.

    Args:
        key: Key; None without a key.
        value: Value; None for a tombstone.
        content_type: Content type; None without one.
    """
    present = bytes((key is not None, value is not None, content_type is not None))
    return digested(b"event", [present, key or b"", content_type or b""], value or b"")


def key_mismatch() -> Failure:
    """Return the failure of a known Idempotency-Key with another body."""
    return Failure(Reason.IDEMPOTENCY_MISMATCH, _KEY_MISMATCH)


def id_mismatch() -> Failure:
    """Return the failure of a known event id with other content."""
    return Failure(Reason.IDEMPOTENCY_MISMATCH, _ID_MISMATCH)


# ---- the rules of `identity.lua`
#
# Both have the same replies and write the same bytes: a property test runs them side by side. An
# entry is one string:
#
#     fingerprint (16)  token (12, zeros: no claim)  deadline (double, ms)  done (one byte)
#     and the remembered outcomes


_ENTRY = struct.Struct(">16s12sdB")
_NOBODY = bytes(TOKEN_BYTES)
# ms that an entry outlives its claim: a late attempt still finds its own token, and a retry with
# other content is still a mismatch.
_MARGIN = 60_000.0


class StoredName(NamedTuple):
    """A value in the store.

    Attributes:
        expires: Time on the store's clock, in milliseconds.
    """

    value: bytes
    expires: float


class NameEntry(NamedTuple):
    """The entry of one name."""

    fingerprint: bytes
    token: bytes
    deadline: float
    done: bool
    remembered: bytes


Store = MutableMapping[bytes, StoredName]


def run(store: Store, call: ClaimCall, now_ms: int) -> list[ClaimVerdict]:
    """Run the script's rules.

    Args:
        store: Keys of the server.
        call: The call.
        now_ms: Clock of the store, in milliseconds.

    Returns:
        One verdict for each claim, in order.
    """
    verdicts = []
    for step in call.operations:
        name = step.name
        letter, fingerprint, token, keep_ms, remembered = unpack_operation(step.packed)
        entry = _read(store, name, now_ms)
        is_own = entry is not None and entry.token == token
        if letter == CLAIM:
            verdict = _verdict(entry, fingerprint, token, now_ms)
            verdicts.append(verdict)
            if verdict.state is ClaimState.CLAIMED:
                _claim(store, name, entry, fingerprint, token, call.claim_ms, keep_ms, now_ms)
        elif letter == RENEW and (entry is None or is_own):
            _claim(store, name, entry, fingerprint, token, call.claim_ms, keep_ms, now_ms)
        elif letter in (DONE, PARTLY) and (entry is None or is_own):
            ended = NameEntry(fingerprint, _NOBODY, 0.0, letter == DONE, remembered)
            _write(store, name, ended, keep_ms, now_ms)
        elif letter == RELEASE and entry is not None and is_own:
            if entry.remembered:
                _write(store, name, entry._replace(token=_NOBODY, deadline=0.0), keep_ms, now_ms)
            else:
                del store[name]
    return verdicts


def _verdict(
    entry: NameEntry | None, fingerprint: bytes, token: bytes, now_ms: int
) -> ClaimVerdict:
    if entry is None:
        return ClaimVerdict(ClaimState.CLAIMED)
    if entry.fingerprint != fingerprint:
        return ClaimVerdict(ClaimState.MISMATCH)
    if entry.done:
        return ClaimVerdict(ClaimState.DONE, entry.remembered)
    # A dead attempt is not done: after its deadline any attempt may claim the name.
    if entry.token not in (_NOBODY, token) and entry.deadline > now_ms:
        return ClaimVerdict(ClaimState.RUNNING)
    return ClaimVerdict(ClaimState.CLAIMED, entry.remembered)


def _claim(
    store: Store,
    name: bytes,
    entry: NameEntry | None,
    fingerprint: bytes,
    token: bytes,
    claim_ms: float,
    keep_ms: float,
    now_ms: int,
) -> None:
    remembered = entry.remembered if entry is not None else b""
    claimed = NameEntry(fingerprint, token, now_ms + claim_ms, False, remembered)
    left_ms = claim_ms + _MARGIN
    if remembered:
        left_ms = max(left_ms, keep_ms)
    _write(store, name, claimed, left_ms, now_ms)


def _read(store: Store, name: bytes, now_ms: float) -> NameEntry | None:
    held = store.get(name)
    if held is None or held.expires <= now_ms:
        store.pop(name, None)
        return None
    fingerprint, token, deadline, done = _ENTRY.unpack_from(held.value)
    return NameEntry(fingerprint, token, deadline, bool(done), held.value[_ENTRY.size :])


def _write(store: Store, name: bytes, entry: NameEntry, left_ms: float, now_ms: float) -> None:
    store[name] = StoredName(_ENTRY.pack(*entry[:4]) + entry.remembered, now_ms + int(left_ms))
