"""Two gateway processes, one Redis and one log, every step of them separate and in our hands.

The steps are those of the model behind the protocol: arrive, claim, reply, hand-over, append,
acknowledgement, settlement. No event loop, no clock but `World.now`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from headgate.model.content import Digester
from headgate.model.outcome import Failure
from headgate.model.publish import Publish, Record, Stage
from headgate.model.suppression import Reservation, Scope
from headgate.redis.script import StoreError
from headgate.suppression.calls import OutgoingCall
from headgate.suppression.options import SuppressOptions
from headgate.suppression.reservations import BypassMode, Reservations
from headgate.suppression.rules import SuppressionCall, SuppressionReply
from support.doubles.suppression_rules import StoredKey, run
from support.gateway.meters import a_meter, counted

LIFE_MS, QUARANTINE_MS, AGE_MS = 10_000.0, 5_000.0, 100_000.0
LOST = StoreError("redis_error", "cut off")


def make_scope(topic_id: int = 1) -> Scope:
    return Scope("deals", bytes([topic_id]) * 16, 1, b"\x07" * 8)


def make_publish(content: str, scope: Scope, key: str = "k") -> Publish:
    value = content.encode()
    publish = Publish(Record("deals", 0, key.encode(), value, [], 0), 100, None, 0, "id")
    publish.reservation = Reservation(scope)
    publish.digest = Digester(scope.rule).digest(value)
    return publish


class World:
    """Redis and the log. `warm`: the log is A, and Redis knows it."""

    def __init__(self, *, warm: bool = True, redis_loss: str = "publish") -> None:
        self.now = 1_000_000.0
        self.log: list[str] = []
        self.values: dict[bytes, StoredKey] = {}
        self.is_full = False
        self.redis_process = 1
        self.scope = make_scope()
        self.refuse = redis_loss == "refuse"
        self.numbers = count(1)
        self.g0, self.g1 = Process(self), Process(self)
        if warm:
            self.g0.talk(self.scope)
            self.later(QUARANTINE_MS)
            assert self.g0.publish_all("A") == "published"

    def later(self, ms: float) -> None:
        self.now += ms

    def restart_redis(self, values: dict[bytes, StoredKey] | None = None) -> None:
        """Redis dies and starts again: every connection breaks."""
        self.redis_process += 1
        self.values = dict(values or {})
        for process in (self.g0, self.g1):
            process.cut()

    @property
    def text(self) -> str:
        return "".join(self.log)


class Process:
    """A gateway process: `Reservations` with its calls carried by hand."""

    def __init__(self, world: World, options: SuppressOptions | None = None) -> None:
        self.world = world
        self.outcomes: dict[Publish, str] = {}  # not by id(): those are used again
        self.lane: list[Publish] = []
        self.meter = a_meter()
        self._on_its_way: tuple[OutgoingCall, SuppressionCall, SuppressionReply] | None = None
        options = options or SuppressOptions(
            token_ttl_ms=LIFE_MS, quarantine_ms=QUARANTINE_MS, max_suppress_age_ms=AGE_MS
        )
        own = bytes([next(world.numbers)])
        self.reservations = Reservations(self, options, self.meter, lambda width: own * width)
        self.reconnect()

    # ---- Verdicts

    def publish(self, publish: Publish) -> None:
        assert not publish.dropped  # see `Verdicts`
        publish.advance(Stage.LANE)
        self.lane.append(publish)

    def unchanged(self, publish: Publish, offset: int) -> None:
        self._end(publish, f"unchanged@{offset}")

    def refused(self, publish: Publish, failure: Failure) -> None:
        self._end(publish, "refused")

    @property
    def bypassed_count(self) -> float:
        return sum(counted(self.meter, "suppression_bypassed").values())

    def _end(self, publish: Publish, outcome: str) -> None:
        publish.advance(Stage.ENDED)
        for one in (publish, *(publish.followers or ())):
            self.outcomes[one] = outcome
        publish.followers = None

    def outcome(self, publish: Publish) -> str | None:
        return self.outcomes.get(publish)

    # ---- steps

    @property
    def seconds(self) -> float:
        return self.world.now / 1000

    def arrive(self, content: str, *, key: str = "k", force: bool = False) -> Publish:
        publish = make_publish(content, self.world.scope, key)
        publish.reserved.force, publish.reserved.refuse = force, self.world.refuse
        self.reservations.reserve(publish)
        return publish

    def claim(self, content: str) -> Publish:
        """Arrive, and let the claim be executed and answered."""
        publish = self.arrive(content)
        self.exchange()
        return publish

    def execute(self) -> bool:
        """Send one call; Redis executes it, the reply is on its way."""
        outgoing = self.reservations.next_call(self.seconds)
        if outgoing is None:
            return False
        call = outgoing.call()
        identity = self.world.redis_process.to_bytes(16, "big")
        now, is_full = int(self.world.now), self.world.is_full
        reply = run(self.world.values, call, identity, now, is_full=is_full)
        self._on_its_way = (outgoing, call, reply)
        return True

    def reply(self) -> None:
        assert self._on_its_way is not None
        outgoing, call, reply = self._on_its_way
        self._on_its_way = None
        self.reservations.apply_reply(outgoing, call, reply, self.seconds)

    def exchange(self) -> None:
        """Tell Redis everything there is to tell."""
        while self.execute():
            self.reply()

    def talk(self, scope: Scope) -> None:
        self.reservations._namespaces.to_refresh.add(scope)
        self.exchange()

    def hand_over(self, *publishes: Publish) -> None:
        for publish in publishes:
            self.lane.remove(publish)
            publish.advance(Stage.HANDED)

    def append(self, publish: Publish) -> int:
        """The broker appends it; returns its offset."""
        if publish.stage is Stage.LANE:
            self.hand_over(publish)
        value = publish.record.value or b""
        self.world.log.append(value.decode())
        return len(self.world.log) - 1

    def acknowledge(self, publish: Publish, offset: int) -> None:
        self._end(publish, "published")
        self.reservations.acknowledged([publish], offset, self.seconds)

    def fail(self, publish: Publish, *, certain: bool) -> None:
        if publish in self.lane:
            self.lane.remove(publish)
        self._end(publish, "refused" if certain else "unknown")
        self.reservations.ended(publish, certain, self.seconds)

    def publish_all(self, content: str) -> str | None:
        """One event's whole way, nothing between."""
        publish = self.claim(content)
        if publish.stage is Stage.LANE:
            self.acknowledge(publish, self.append(publish))
            self.exchange()
        return self.outcome(publish)

    def cut(self) -> None:
        """The connection breaks; a reply on its way is lost."""
        self._on_its_way = None
        self.reservations.lost(LOST)

    def reconnect(self, *, exchange: bool = True) -> None:
        self.reservations.begin_catching_up()
        self.reservations.mode = BypassMode.READY
        if exchange:
            self.exchange()

    def die(self) -> Process:
        """kill -9; the process that takes its place."""
        return Process(self.world)


def figures(reservations: Reservations) -> dict[str, int]:
    """How many events wait, are under way, and are not settled yet."""
    return {
        "waiting": reservations.waiting(),
        "under_way": sum(1 for _ in reservations._in_flight),
        "unsettled": len(reservations._settlements),
    }


def contents(publishes: Sequence[Publish]) -> str:
    return "".join((publish.record.value or b"").decode() for publish in publishes)
