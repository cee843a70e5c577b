"""One held partition H, its topic O, the group, the coordinator and Redis, in memory.

The real `PartitionSession` runs on it, resumed by hand: every await is a step, and whoever draws
the steps decides about crashes, zombies and lost answers. The rules:
docs/design/coalescing-protocol.md."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from headgate.coalescer.decisions import (
    CoalescingRules,
    Committed,
    Emission,
    LogError,
    Read,
    WindowDecision,
    WindowVerdict,
)
from headgate.coalescer.partition import PartitionSession
from headgate.coalescer.windows import (
    DoneMark,
    HeldBounds,
    HeldEvent,
    HeldRecord,
    Metadata,
    Window,
    WindowTimes,
)
from headgate.formats.json_text import KeyReader
from headgate.model.internal_topics import held_topic, is_held
from headgate.model.keys import partition_for
from headgate.model.policy import TopicPolicy
from headgate.model.route import Route
from headgate.model.topics import TopicState

RULES = CoalescingRules(WindowTimes(10, 40, 1000), HeldBounds(100, 100_000), max_records=1)
CRAMPED = RULES._replace(bounds=HeldBounds(100, 50))  # one event is too much already
OPEN, DECIDED, COMMITTED, ABORTED = "open", "decided", "committed", "aborted"


class Step:
    """An await: the one place where another process, or a fault, may come in between."""

    def __init__(self, label: str) -> None:
        self.label = label

    def __await__(self) -> Generator[str, None, None]:
        yield self.label


@dataclass(eq=False)
class Transaction:
    """epoch: whose.  offset, metadata: of the group, once they were sent."""

    epoch: int
    state: str = OPEN
    offset: int | None = None
    metadata: str = ""


class Entry(NamedTuple):
    """A record of H or O. transaction None: not transactional. event: for O, the held event's
    `number`."""

    record: HeldRecord | None
    key: bytes
    event: int
    content: bytes | None
    transaction: Transaction | None

    @property
    def is_committed(self) -> bool:
        return self.transaction is None or self.transaction.state in (COMMITTED, DECIDED)


@dataclass
class Cell:
    """Redis' entry of a key."""

    content: object = "nothing"
    offset: int = -1
    tokens: dict[tuple[int, int], bool] = field(default_factory=dict)  # token -> has expired


def number(held: HeldEvent) -> int:
    """A name for a held event that grows with every event, also when H is recreated."""
    return held.timestamp_ms


class World:
    """is_fenced, is_atomic: switched off to show what fencing and the transaction are for."""

    def __init__(self, *, is_fenced: bool = True, is_atomic: bool = True) -> None:
        self.is_fenced, self.is_atomic = is_fenced, is_atomic
        self.h: list[Entry] = []
        self.made = 0  # how often H was recreated
        self.retold: set[int] = set()  # emitted by who did not know yet that H is another one
        self.o: list[Entry] = []
        self.cells: dict[bytes, Cell] = {}
        self.group = Committed(-1, "")
        self.epoch = 0
        self.transactions: list[Transaction] = []
        self.now = 1_000_000
        self.redis_up = True
        self.wire: list[Transaction] = []  # EndTxn requests that have not arrived
        self.violations: list[str] = []
        self.events = 0

    def post(self, key: str, content: str | None, policy: TopicPolicy) -> str:
        """An event comes to a gateway with this policy; returns what becomes of it."""
        if is_held(policy, H_STATE):
            self.hold(key, content)
            return "held"
        return self.publish(key, content)

    def publish(self, key: str, content: str | None) -> str:
        """A gateway publishes directly: RESERVE, record and SETTLE in one step."""
        self.events += 1
        value = None if content is None else content.encode()
        cell = self.cells.setdefault(key.encode(), Cell())
        if not cell.tokens and cell.content == value:
            return "unchanged"
        cell.offset, cell.content = len(self.o), value
        self.o.append(Entry(None, key.encode(), self.events, value, None))
        self.check_o()
        return "published"

    def hold(self, key: str, content: str | None, *, force: bool = False) -> None:
        value = None if content is None else content.encode()
        offset = len(self.h)
        self.events += 1
        held = HeldEvent(
            offset, key.encode(), value, (), self.events, self.now, "p", force, None, 100
        )  # fmt: skip
        self.h.append(Entry(held, held.key, number(held), value, None))

    @property
    def topic_id(self) -> str:
        return f"{self.made:02x}"

    def recreate_held(self) -> None:
        """H is deleted, with what nobody has emitted yet, and another one is created."""
        self.made += 1
        self.h = []

    def stable_end(self) -> int:
        """The last stable offset of H."""
        for offset, entry in enumerate(self.h):
            if entry.transaction is not None and entry.transaction.state == OPEN:
                return offset
        return len(self.h)

    def visible(self) -> list[Entry]:
        """O, read_committed."""
        return [entry for entry in self.o if entry.is_committed]

    def last(self, key: bytes) -> Entry | None:
        return next((one for one in reversed(self.visible()) if one.key == key), None)

    # ---- the coordinator

    def may_write(self, epoch: int) -> bool:
        return not self.is_fenced or epoch == self.epoch

    def init(self) -> int | None:
        """InitProducerId; None while markers are being written."""
        if self.is_fenced:
            if any(one.state == DECIDED for one in self.transactions):
                return None
            for one in self.transactions:
                self.abort(one)
        self.epoch += 1
        return self.epoch

    def abort(self, transaction: Transaction) -> None:
        if transaction.state == OPEN:
            transaction.state = ABORTED

    def decide(self, transaction: Transaction) -> None:
        if transaction.state == OPEN:
            transaction.state = DECIDED
            self.check_o()

    def write_markers(self) -> bool:
        decided = [one for one in self.transactions if one.state == DECIDED]
        for one in decided:
            one.state = COMMITTED
            if one.offset is not None:
                self.group = Committed(one.offset, one.metadata)
        return bool(decided)

    # ---- what must hold (numbered as in docs/design/coalescing-protocol.md)

    def check_o(self) -> None:
        """Whoever has not seen yet that H was recreated may emit of the new one what its successor
        emits again: nothing tells the successor of it. Nothing is lost, and O ends right."""
        for key in {entry.key for entry in self.o}:
            found = [entry.event for entry in self.visible() if entry.key == key]
            events = [event for event in found if event not in self.retold]
            if any(later < earlier for earlier, later in pairwise(events)):
                self.violations.append(f"2 O goes back: {events}")
            if len(set(events)) < len(events):
                self.violations.append(f"4 an event is twice in O: {events}")

    def check_unchanged(self, window: Window) -> None:
        last = self.last(window.last.key)
        if last is None or last.content != window.last.value:
            self.violations.append(f"5 event {window.last.offset} unchanged, O ends with {last}")

    def check_end(self) -> None:
        held = [one.record for one in self.h if isinstance(one.record, HeldEvent)]
        metadata = Metadata.read(self.group.metadata)
        is_of_h = metadata is not None and metadata.topic_id == self.topic_id
        if self.h and (self.group.offset < self.stable_end() or not is_of_h):
            self.violations.append(f"3 stuck: {self.group} of {self.stable_end()}")
        for key in {one.key for one in held}:
            mine = [one for one in held if one.key == key]
            last = self.last(key)
            newest = mine[-1]
            if last is None or (last.event < number(newest) and last.content != newest.value):
                self.violations.append(f"1 event {newest.offset} is lost, O ends with {last}")
            forced = [number(one) for one in mine if one.is_forced]
            if forced and (last is None or last.event < forced[-1]):
                self.violations.append(f"6 forced event {forced[-1]} has no record")


class Process:
    """One owner: a `PartitionSession` that is resumed step by step (`KafkaHeldPartition`,
    `Decisions`,
    `PartitionOwner`, all three)."""

    life_type: type[PartitionSession] = PartitionSession
    forgets_unreserved = False  # rule 12 switched off
    rules = RULES

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        self.knows = True  # that it owns the partition, or rather: not that it does not
        self.sees = world.topic_id  # which H it takes for the present one
        self.is_leaving = False
        self.is_dead = False
        self.lose: str | None = None  # the next EndTxn's request or answer
        self.unreserved: set[bytes] = set()  # of the process, as the connection to Redis is
        self.owed: list[tuple[WindowDecision, int]] = []
        self.begin()

    def begin(self) -> None:
        """Another session: nothing of the last one is left."""
        self.epoch, self.position, self.serial = 0, 0, 0
        self.transaction: Transaction | None = None
        self.emitting: list[Window] = []
        self.unchanged: list[Window] = []
        self.label = ""
        self.session = self.life_type(self, self, self.rules, self)
        self.coroutine = self.session.run()
        self.is_leaving = False

    def look(self) -> None:
        """See which H there is; the term ends where it is another one (`Member.rejoin`)."""
        self.is_leaving |= self.sees != self.world.topic_id
        self.sees = self.world.topic_id

    def resume(self) -> None:
        """Take one step; a life that ended by an error begins again."""
        try:
            self.label = self.coroutine.send(None)
        except (LogError, StopIteration):
            if self.knows:
                self.begin()
            else:
                self.die()

    def die(self) -> None:
        self.is_dead = True
        self.coroutine.close()

    # ---- KafkaHeldPartition

    async def fence(self) -> None:
        await Step("InitProducerId")
        while (epoch := self.world.init()) is None:
            await Step("InitProducerId waits for markers")
        self.epoch = epoch

    async def committed(self) -> Committed:
        await Step("reads the committed offset")
        return self.world.group

    async def end(self) -> int:
        await Step("takes the end")
        return self.world.stable_end()

    async def seek(self, offset: int) -> int:
        self.position = max(0, offset)
        return self.position

    async def read(self, wait_ms: int) -> Read:
        await Step("reads")
        self._check()
        found: list[HeldRecord] = []
        if self.position > len(self.world.h):
            self.position = 0  # out of range: the earliest
        if self.position < self.world.stable_end():
            entry = self.world.h[self.position]
            self.position += 1
            if entry.is_committed and entry.record is not None:
                found.append(entry.record)
        return Read(found, self.position)

    async def append(self, emissions: Sequence[Emission], marks: Sequence[DoneMark]) -> list[int]:
        await Step("appends")
        transaction = self._in_transaction()
        in_o = transaction if self.world.is_atomic else None
        offsets = []
        for window, emission in zip(self.emitting, emissions, strict=True):
            offsets.append(len(self.world.o))
            event = number(window.last)
            if self.session._topic_id != self.world.topic_id:
                self.world.retold.add(event)
            self.world.o.append(Entry(None, emission.key, event, emission.value, in_o))
        for mark in marks:
            self.world.h.append(Entry(mark, mark.key, -1, None, transaction))
        self.world.check_o()
        return offsets

    async def send_offset(self, offset: int, metadata: str) -> None:
        await Step("sends the offset")
        transaction = self._in_transaction()
        transaction.offset, transaction.metadata = offset, metadata

    async def end_transaction(self) -> None:
        await Step("EndTxn")
        transaction = self._in_transaction()
        self.transaction, lose, self.lose = None, self.lose, None
        if lose == "request":
            self.world.wire.append(transaction)
            raise LogError("timeout", "no answer")
        self.world.decide(transaction)
        unchanged, self.unchanged = self.unchanged, []
        for window in unchanged:
            self.world.check_unchanged(window)
        if lose == "answer":
            raise LogError("timeout", "no answer")
        if (
            lose == "fenced"
        ):  # executed, its answer lost, sent again after somebody's InitProducerId
            raise LogError("fenced", "another owner", is_refusal=False)
        await Step("is told that it is committed")

    def _in_transaction(self) -> Transaction:
        self._check()
        if not self.world.may_write(self.epoch):
            raise LogError("fenced", "another owner", is_refusal=True)
        if self.transaction is None or self.transaction.state != OPEN:
            if any(one.state == DECIDED for one in self.world.transactions):
                self.world.write_markers()  # CONCURRENT_TRANSACTIONS: the client waits
            self.transaction = Transaction(self.epoch)
            self.world.transactions.append(self.transaction)
        return self.transaction

    def _check(self) -> None:
        if not self.knows:
            raise LogError("not_owner", "revoked", is_refusal=True)

    # ---- Decisions: the suppression protocol, without quarantine

    async def reserve(self, route: Route, windows: Sequence[Window]) -> list[WindowDecision]:
        await Step("RESERVE")
        self.emitting, self.unchanged, decided = [], [], []
        for window in windows:
            self.serial += 1
            token = (self.epoch * 1000 + self.serial, window.last.offset)
            if not self.world.redis_up:
                self.unreserved.add(window.last.key)
                verdict = WindowVerdict.PUBLISH
            else:
                verdict = self._claim(window, token)
            (self.unchanged if verdict is WindowVerdict.UNCHANGED else self.emitting).append(window)
            decided.append(
                WindowDecision(verdict, (window, token), partition_for(window.last.key, 1))
            )
        return decided

    def _claim(self, window: Window, token: tuple[int, int]) -> WindowVerdict:
        cell = self.world.cells.setdefault(window.last.key, Cell())
        if cell.tokens and all(cell.tokens.values()):
            cell.tokens, cell.content = {}, "nothing"
        known = cell.content == window.last.value
        if not window.is_forced and not cell.tokens and known:
            return WindowVerdict.UNCHANGED
        cell.tokens[token] = False
        return WindowVerdict.PUBLISH

    def settle(self, decided: WindowDecision, offset: int) -> None:
        if not self.is_dead:
            self.owed.append((decided, offset))
            self.tell_redis()

    def tell_redis(self) -> None:
        """Settlements wait for Redis; until they are told, unreserved publishes stay so."""
        while self.owed and self.world.redis_up:
            decided, offset = self.owed.pop(0)
            window, token = decided.publish  # type: ignore[misc]
            cell = self.world.cells.setdefault(window.last.key, Cell())
            trusted = cell.tokens.pop(token, None) is not None
            if offset > cell.offset:
                cell.offset, cell.content = offset, window.last.value if trusted else "nothing"
            self.unreserved.discard(window.last.key)

    def give_up(self, decided: WindowDecision, certain: bool) -> None:
        window, token = decided.publish  # type: ignore[misc]
        if certain and not self.is_dead and window.last.key in self.world.cells:
            self.world.cells[window.last.key].tokens.pop(token, None)

    def has_unreserved(self, route: Route) -> bool:
        return bool(self.unreserved) and not self.forgets_unreserved

    def distrust(self, route: Route) -> None:
        self.world.cells.clear()

    # ---- PartitionOwner

    def now_ms(self) -> int:
        return self.world.now

    def is_stopping(self) -> bool:
        return self.is_leaving

    async def turn(self) -> None:
        """A step is a turn of its own."""

    async def pause(self, seconds: float) -> None:
        await Step("pauses")

    def route(self) -> Route:
        return ROUTE

    def topic_id(self) -> str:
        return self.sees

    def ended(self, outcome: str, windows: Sequence[Window]) -> None:
        """Nobody counts."""


POLICY = TopicPolicy("t", "main", kind="state")
ROUTE = Route(POLICY, TopicState("t", "main", bytes(16), 1), KeyReader.parse(POLICY.key), 128)
H_STATE = TopicState(held_topic("t"), "main", bytes(16), 1)
