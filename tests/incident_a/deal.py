"""The deal of incident A, and its saves."""

from __future__ import annotations

import random
from collections.abc import Iterator

from incident_a.plan import Scale
from workload import prose


class Deal:
    """key: its own for each run.  changes: whether the burst leaves it another one."""

    def __init__(self, scale: Scale, key: str, *, changes: bool) -> None:
        chance = random.Random(1)
        room = scale.document_bytes // scale.options - 70
        self._head = b'{"id":"%b","options":[' % key.encode()
        self._options = [
            b'{"option":%d,"price_minor":%d,"text":"%b","active":'
            % (number, chance.randrange(100, 100_000), prose(chance, room).encode())
            for number in range(scale.options)
        ]
        self._back_on = chance.sample(range(scale.options), scale.back_on)
        self._before = set(range(scale.options)) if changes else set(self._back_on)

    def before(self) -> bytes:
        return self._text(self._before)

    def saves(self) -> Iterator[bytes]:
        """Each option off, then some back on. One that is off already is saved all the same."""
        on = set(self._before)
        for number in range(len(self._options)):
            on.discard(number)
            yield self._text(on)
        for number in self._back_on:
            on.add(number)
            yield self._text(on)

    def _text(self, on: set[int]) -> bytes:
        states = (b"true}" if number in on else b"false}" for number in range(len(self._options)))
        pairs = zip(self._options, states, strict=True)
        return self._head + b",".join(one + state for one, state in pairs) + b"]}"
