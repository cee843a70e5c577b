"""What is remembered of events that ended well, and how a later attempt answers with it."""

from collections.abc import Iterable

import msgspec

from headgate.core.outcome import Name, Outcome

FULL_BYTES = 262_144  # beyond it only codes and places are kept, not keys and ids
# Texts, because the order of an enum is no promise to what another version has stored.
_CODES = {name: name.value[:2] for name in Name}
_Row = tuple[int, str, int, int, bytes | None, str | None]
_decode = msgspec.msgpack.Decoder(list[_Row]).decode
_encode = msgspec.msgpack.Encoder().encode


def ended_well(outcome: Outcome) -> bool:
    """Whether an event need not be sent again: what may be remembered of it."""
    return outcome.failure is None


def duplicate(first: Outcome) -> Outcome:
    """The answer to an event that was done before: the first one's place."""
    return first.of(Name.DUPLICATE, first.event_id)


def pack(outcomes: Iterable[tuple[int, Outcome]]) -> bytes:
    """Outcomes that ended well, by their place in the request."""
    rows = [
        (index, _CODES[one.name], one.partition, one.offset, one.key, one.event_id)
        for index, one in outcomes
    ]
    packed = _encode(rows)
    if len(packed) <= FULL_BYTES:
        return packed
    return _encode([(*row[:4], None, None) for row in rows])


def unpack(remembered: bytes) -> dict[int, Outcome]:
    """As answers to a later attempt, by place in the request."""
    return {row[0]: _duplicate(row) for row in _decode(remembered)} if remembered else {}


def _duplicate(row: _Row) -> Outcome:
    _, _, partition, offset, key, event_id = row
    return Outcome(Name.DUPLICATE, partition, offset, key, event_id)
