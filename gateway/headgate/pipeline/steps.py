"""What some topics need beside lanes and suppression: what `Endings` asks of it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headgate.backends.base import Identities
from headgate.core.facts import Facts
from headgate.core.outcome import Failure, Outcome
from headgate.core.publish import Publish
from headgate.pipeline.examining import Examining


class Whole(Protocol):
    """The records that an oversized event became (`ladder.parts`)."""

    rung: str
    count: int
    partition: int
    offset: int

    def ended(self, part: Publish, outcome: Outcome) -> None: ...


class Ladder(Protocol):
    """Where events of topics with a ladder go instead of their lane (`ladder.ladder`)."""

    def take(self, publish: Publish) -> None: ...

    def drop(self, publish: Publish) -> None: ...

    def handed_over(self, batch: Sequence[Publish]) -> None: ...


class Clock(Protocol):
    """Who judges this gateway's clock (`clock_watch`)."""

    @property
    def is_suspect(self) -> bool: ...

    def refused(self, topic: str, stamped_ms: int, records: int) -> Failure: ...

    def acknowledged(self, topic: str) -> None: ...


class Steps(NamedTuple):
    """What some topics need beside lanes and suppression; without one, no topic may ask for it.

    identity: for `dedupe_ttl_s` and Idempotency-Keys.  examining: for canonical comparison and
    schemas.  ladder: for rungs below `reject`.  facts: for `facts`.
    clock: hears which of our times Kafka takes.
    """

    identity: Identities | None = None
    examining: Examining | None = None
    ladder: Ladder | None = None
    facts: Facts | None = None
    clock: Clock | None = None
