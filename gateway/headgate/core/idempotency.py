"""Claims of one request, and the outcomes that Redis remembers of it."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from headgate.core.outcome import Name, Outcome

TOKEN_BYTES = 12
CLAIM, RENEW, DONE, PARTLY, RELEASE = b"c", b"r", b"d", b"p", b"x"
_OPERATION: Final = struct.Struct(">c16s12sd")


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
        """Return a step of the script on this claim."""
        packed = _OPERATION.pack(letter, self.fingerprint, self.token, self.keep_ms)
        return ClaimStep(self.name, packed + remembered)


class ClaimStep:
    """One step of the script: an entry's name, and letter, fingerprint, token, keep_ms, memory."""

    __slots__ = ("name", "packed")

    def __init__(self, name: bytes, packed: bytes) -> None:
        self.name: Final = name
        self.packed: Final = packed


def unpack_operation(packed: bytes) -> tuple[bytes, bytes, bytes, float, bytes]:
    """Return letter, fingerprint, token, keep_ms, remembered."""
    return *_OPERATION.unpack_from(packed), packed[_OPERATION.size :]


FULL_BYTES = 262_144  # beyond it only codes and places are kept, not keys and ids
# Texts, because the order of an enum is no promise to what another version has stored.
_CODES = {name: name.value[:2] for name in Name}
_Row = tuple[int, str, int, int, bytes | None, str | None]
_decode = msgspec.msgpack.Decoder(list[_Row]).decode
_encode = msgspec.msgpack.Encoder().encode


def ended_well(outcome: Outcome) -> bool:
    """Return whether an event need not be sent again, so that it is remembered."""
    return outcome.failure is None


def duplicate_of(first: Outcome) -> Outcome:
    """The answer to an event that was done before: the first one's place."""
    return first.of(Name.DUPLICATE, first.event_id)


def pack_outcomes(outcomes: Iterable[tuple[int, Outcome]]) -> bytes:
    """Outcomes that ended well, by their place in the request."""
    rows = [
        (index, _CODES[each.name], each.partition, each.offset, each.key, each.event_id)
        for index, each in outcomes
    ]
    packed = _encode(rows)
    if len(packed) <= FULL_BYTES:
        return packed
    return _encode([(*row[:4], None, None) for row in rows])


def unpack_outcomes(remembered: bytes) -> dict[int, Outcome]:
    """Return the answers to a later attempt, by index in the request."""
    return {row[0]: _duplicate(row) for row in _decode(remembered)} if remembered else {}


def _duplicate(row: _Row) -> Outcome:
    _, _, partition, offset, key, event_id = row
    return Outcome(Name.DUPLICATE, partition, offset, key, event_id)


class Attempt:
    """One request's claims. Mutable: it goes with the request's ticket.

    request: of its Idempotency-Key.  known: what earlier attempts under that key ended well, as
    answers, by place in the request.  events: of event ids, by place.  twins: events whose id
    and content an earlier event of the same request has, and that one's place.
    bypassed: Redis could not be asked about the Idempotency-Key.  is_told: what is to be remembered
    was handed on.
    """

    __slots__ = ("_late", "bypassed", "events", "is_told", "known", "request", "twins")

    def __init__(self, request: Claim | None = None) -> None:
        self.request = request
        self.known: dict[int, Outcome] = {}
        self.events: dict[int, Claim] = {}
        self.twins: dict[int, int] = {}
        self.bypassed = self.is_told = False
        self._late: dict[int, Outcome] = {}

    def late(self, index: int, outcome: Outcome) -> None:
        """An event that was answered `unknown` has ended after all."""
        self._late[index] = outcome

    def answer_twins(self, outcomes: list[Outcome | None]) -> None:
        """Events that wait for their twin end as it ended: all others have ended."""
        for index, first in self.twins.items():
            outcome = outcomes[first]
            if outcome is not None:
                outcomes[index] = _twin_of(outcome)

    def is_replay(self, outcomes: Sequence[Outcome | None]) -> bool:
        """Return whether all of the answer is from memory."""
        if not self.known or len(self.known) != len(outcomes):
            return False
        first = outcomes[0]
        return (
            first is not None and first.failure is None
        )  # else the request was refused as a whole

    def operations(self, outcomes: Sequence[Outcome | None]) -> Iterator[tuple[bytes, ClaimStep]]:
        """Yield the script's last steps, each with the token of its claim.

        No outcome can change any more.
        """
        ended = [self._late.get(index, outcome) for index, outcome in enumerate(outcomes)]
        for index, claim in self.events.items():
            outcome = ended[index]
            if outcome is not None and ended_well(outcome):
                yield claim.token, claim.operation(DONE, pack_outcomes([(0, outcome)]))
            else:
                yield claim.token, claim.operation(RELEASE)
        if self.request is not None:
            if self._late:
                self.answer_twins(ended)
            yield self.request.token, _of_request(self.request, ended)


def _of_request(claim: Claim, ended: Sequence[Outcome | None]) -> ClaimStep:
    well = [
        (index, outcome)
        for index, outcome in enumerate(ended)
        if outcome is not None and ended_well(outcome)
    ]
    if not well:
        return claim.operation(RELEASE)
    letter = DONE if len(well) == len(ended) else PARTLY
    return claim.operation(letter, pack_outcomes(well))


def _twin_of(outcome: Outcome) -> Outcome:
    """Return a duplicate of the first outcome, or its failure."""
    return duplicate_of(outcome) if ended_well(outcome) else outcome
