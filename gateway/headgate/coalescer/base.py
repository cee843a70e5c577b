"""What the session of an assignment asks of Kafka, of the suppression state and of its process.

`partition_session.py` talks to these protocols only, without asyncio: the simulation in tests
drives the same code by hand, step by step, through crashes and zombies."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from headgate.core.coalescing.coalesce import Figures
from headgate.core.coalescing.held import DoneMark, HeldRecord
from headgate.core.coalescing.window import HeldBounds, Window, WindowTimes
from headgate.core.record import Header
from headgate.core.topics.route import Route


class LogError(Exception):
    """Kafka did not do what it was asked, or its answer is not known: this session is over.

    label: bounded variety, for metrics.  is_refusal: it certainly did nothing of what it was
    asked; else it may have, or may yet do it.
    """

    def __init__(self, label: str, detail: str, is_refusal: bool = False) -> None:
        super().__init__(detail)
        self.label = label
        self.is_refusal = is_refusal


class Committed(NamedTuple):
    """What the group knows of a partition. offset: -1 = nothing."""

    offset: int
    metadata: str


class Read(NamedTuple):
    """What was read. position: the next offset, past whatever is not shown."""

    records: Sequence[HeldRecord]
    position: int


class Emission(NamedTuple):
    """One record for the topic. key, value, headers: as in Kafka.  partition: of the topic."""

    partition: int
    key: bytes
    value: bytes | None
    headers: list[Header]
    timestamp_ms: int


class HeldPartition(Protocol):
    """One partition of H, and one transactional producer, for one session of an assignment.

    Every call may raise LogError. Nothing here is shared with an earlier life (rules 1, 3).
    """

    async def fence(self) -> None:
        """InitProducerId: ends every earlier owner's transaction, and waits for its markers."""
        ...

    async def committed(self) -> Committed:
        """Read the group's offset."""
        ...

    async def end(self) -> int:
        """Where H ends, read_committed."""
        ...

    async def seek(self, offset: int) -> int:
        """Read on from there, or from the earliest there is; returns the position."""
        ...

    async def read(self, wait_ms: int) -> Read:
        """Wait so long at most for records; empty when there are none or it is time to stop."""
        ...

    async def append(self, emissions: Sequence[Emission], marks: Sequence[DoneMark]) -> list[int]:
        """Begin a transaction and write; the emissions' offsets, -1 where Kafka gave none."""
        ...

    async def send_offset(self, offset: int, metadata: str) -> None:
        """The group's offset, in the transaction (begun here if there is none)."""
        ...

    async def end_transaction(self) -> None:
        """EndTxn(commit). After an error it is not known whether it is committed."""
        ...


class WindowVerdict(Enum):
    """What Redis says of a window's content. WAIT: not now (redis_loss = "refuse")."""

    PUBLISH = 0
    UNCHANGED = 1
    WAIT = 2


class WindowDecision(NamedTuple):
    """token: whatever the decisions need to settle it.  partition: of the topic."""

    verdict: WindowVerdict
    token: object
    partition: int


class Decisions(Protocol):
    """RESERVE before, SETTLE after (docs/design/suppression-protocol.md)."""

    async def reserve(self, route: Route, windows: Sequence[Window]) -> list[WindowDecision]:
        """One verdict for each window, of different keys."""
        ...

    def settle(self, decided: WindowDecision, offset: int) -> None:
        """The record is in the topic, at this offset."""
        ...

    def give_up(self, decided: WindowDecision, certain: bool) -> None:
        """Not known to be in the topic. certain: it cannot be, for EndTxn was never sent."""
        ...

    def has_unreserved(self, route: Route) -> bool:
        """Whether something was published without asking Redis, and is not settled yet."""
        ...

    def distrust(self, route: Route) -> None:
        """Before the next RESERVE forget what is known of the topic (rule 12)."""
        ...


class CoalescingRules(NamedTuple):
    """What holds for a topic. limits of one transaction: records and bytes."""

    times: WindowTimes
    bounds: HeldBounds
    max_records: int = 500
    max_bytes: int = 4_194_304


class AssignmentHost(Protocol):
    """The process around an assignment."""

    def now_ms(self) -> int: ...

    def is_stopping(self) -> bool:
        """Whether to end after the transaction that is under way."""
        ...

    async def turn(self) -> None:
        """Before a piece of work, so that those of all owners never come in one go."""
        ...

    async def pause(self, milliseconds: int) -> None:
        """Wait, or until it is time to stop."""
        ...

    def route(self) -> Route:
        """The topic's route in force. Raises LogError while the topic cannot be written to."""
        ...

    def topic_id(self) -> str:
        """H's id, in hex."""
        ...

    def ended(self, outcome: str, windows: Sequence[Window]) -> None:
        """Windows that ended for good: the newest event `outcome`, the others superseded."""
        ...

    def show(self, figures: Figures) -> None:
        """What is held now."""
        ...
