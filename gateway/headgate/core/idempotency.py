"""Claims of a request, and the outcomes that Redis remembers."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from headgate.core.outcome import Name, Outcome

TOKEN_BYTES = 12
CLAIM, RENEW, DONE, PARTLY, RELEASE = b"c", b"r", b"d", b"p", b"x"
_OPERATION: Final = struct.Struct(">c16s12sd")


class Claim:
    """A claim of a name in Redis by one attempt.

    Args:
        name: The name of the entry in Redis.
        fingerprint: 16 bytes, a hash of the content.
        token: 12 bytes, unique to the attempt.
        keep_ms: The time for which Redis remembers the outcome, in milliseconds.
    """

    __slots__ = ("fingerprint", "keep_ms", "name", "token")

    def __init__(self, name: bytes, fingerprint: bytes, token: bytes, keep_ms: float) -> None:
        self.name: Final = name
        self.fingerprint: Final = fingerprint
        self.token: Final = token
        self.keep_ms: Final = keep_ms

    def operation(self, letter: bytes, remembered: bytes = b"") -> "ClaimStep":
        """Return a step of the Redis script for this claim."""
        packed = _OPERATION.pack(letter, self.fingerprint, self.token, self.keep_ms)
        return ClaimStep(self.name, packed + remembered)


class ClaimStep:
    """A step of the script: an entry's name, and the packed operation."""

    __slots__ = ("name", "packed")

    def __init__(self, name: bytes, packed: bytes) -> None:
        self.name: Final = name
        self.packed: Final = packed


def unpack_operation(packed: bytes) -> tuple[bytes, bytes, bytes, float, bytes]:
    """Return letter, fingerprint, token, keep_ms and the remembered outcomes."""
    return *_OPERATION.unpack_from(packed), packed[_OPERATION.size :]


FULL_BYTES = 262_144  # above it, only codes and positions are stored, not keys and ids
# Texts, because another version of the gateway may number the members of the enum differently.
_CODES = {name: name.value[:2] for name in Name}
_Row = tuple[int, str, int, int, bytes | None, str | None]
_decode = msgspec.msgpack.Decoder(list[_Row]).decode
_encode = msgspec.msgpack.Encoder().encode


def ended_well(outcome: Outcome) -> bool:
    """Return whether an event succeeded, so that its outcome is remembered."""
    return outcome.failure is None


def duplicate_of(first: Outcome) -> Outcome:
    """Return the outcome of a duplicate: the position of the first event."""
    return first.of(Name.DUPLICATE, first.event_id)


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
    return {row[0]: _duplicate(row) for row in _decode(remembered)} if remembered else {}


def _duplicate(row: _Row) -> Outcome:
    _, _, partition, offset, key, event_id = row
    return Outcome(Name.DUPLICATE, partition, offset, key, event_id)


class Attempt:
    """The claims of one request; it is mutable and belongs to the request's ticket.

    Attributes:
        request: The claim of the Idempotency-Key.
        known: The successful outcomes of earlier attempts with this key, by index in the request.
        events: The claims of event ids, by index.
        twins: The index of each event that equals an earlier event of the same request in id and
            content, and the index of that earlier event.
        bypassed: Whether Redis could not be asked about the Idempotency-Key.
        is_told: Whether the outcomes to remember were passed on.
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
        """Record the late outcome of an event that was answered `unknown`."""
        self._late[index] = outcome

    def answer_twins(self, outcomes: list[Outcome | None]) -> None:
        """Give each twin the outcome of its earlier event; all other events have ended."""
        for index, first in self.twins.items():
            outcome = outcomes[first]
            if outcome is not None:
                outcomes[index] = _twin_of(outcome)

    def is_replay(self, outcomes: Sequence[Outcome | None]) -> bool:
        """Return whether earlier attempts provide the whole response."""
        if not self.known or len(self.known) != len(outcomes):
            return False
        first = outcomes[0]
        return (
            first is not None and first.failure is None
        )  # otherwise the request was refused as a whole

    def operations(self, outcomes: Sequence[Outcome | None]) -> Iterator[tuple[bytes, ClaimStep]]:
        """Yield the final steps of the script, each with the token of its claim.

        Call it when no outcome can change any more.
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
