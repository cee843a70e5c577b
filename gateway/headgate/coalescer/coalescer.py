"""The coalescer of one process: a group member per cluster, an owner per partition, and the lag."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from headgate.audits.facts import Facts
from headgate.backends.owned import OwnedTasks
from headgate.coalescer.decisions import CoalescingRules, Decisions, LogError, Turns
from headgate.coalescer.partition import (
    GROUP,
    HeldPartition,
    OwnerContext,
    PartitionOwner,
)
from headgate.coalescer.windows import Figures, HeldBounds, Window, WindowTimes
from headgate.consumer.membership import Membership
from headgate.consumer.options import MemberOptions
from headgate.consumer.ownership import Owned
from headgate.ingest.gate import Routes
from headgate.kafka.aiokafka_internals import client_of, drop_consumer, open_consumer, read_commits
from headgate.kafka.options import ClusterOptions
from headgate.kafka.topics import READ_ERRORS, KafkaTopics, kafka_error
from headgate.metrics.meter import Meter
from headgate.model.internal_topics import held_topic, held_topics_of, is_there, topic_of
from headgate.model.outcome import Failure, OutcomeName, Reason, Refused
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.route import Route
from headgate.model.times import Outage
from headgate.model.topics import TopicState

log = logging.getLogger("headgate.coalescer")

# A transaction takes 0.1 s; a slower one is dropped, and the next owner repeats it.
_FINISH_S, _DROP_S = 5.0, 5.0
_CLOSE_S = 4 * _FINISH_S  # finish, drop, leave the group


def report(
    facts: Facts | None,
    policy: TopicPolicy | None,
    topic: str,
    outcome: str,
    windows: Sequence[Window],
) -> None:
    """Report the facts of windows, if the topic has facts.

    A window keeps no single events. So the superseded events of a producer are one fact.

    Args:
        facts: Receiver of facts; None if there is none.
        policy: Policy of the topic.
        topic: Name of the topic.
        outcome: Outcome of each window's newest event.
        windows: Windows that have ended.
    """
    if facts is None or policy is None or not policy.facts:
        return
    for window in windows:
        last = window.last
        for producer, sum_of in window.superseded.items():
            facts.coalesced(producer, topic, OutcomeName.SUPERSEDED, last.key, *sum_of)
        if outcome == OutcomeName.UNCHANGED:
            size = len(last.value or b"")
            facts.coalesced(last.producer, topic, OutcomeName.UNCHANGED, last.key, 1, size)


class Coalescer:
    """A coalescer: `start` begins to watch for held topics, `close` leaves the groups.

    Args:
        clusters: Options of the clusters, by name.
        session_timeout_ms: Time for which a dead owner keeps its partitions.
        topics: Topics of the clusters.
        routes: Routes of the topics, without their held topics.
        policies: Active policies.
        decisions: Decisions on windows.
        meter: Counts the ends of events.
        now_ms: Wall clock, in milliseconds since 1970.
        turns: Turns of the process.
        facts: Receiver of facts; None if there is none.
    """

    def __init__(
        self,
        clusters: Mapping[str, ClusterOptions],
        session_timeout_ms: int,
        topics: KafkaTopics,
        routes: Routes,
        policies: PolicyTable,
        decisions: Decisions,
        meter: Meter,
        now_ms: Callable[[], int],
        turns: Turns,
        facts: Facts | None = None,
    ) -> None:
        self._facts = facts
        self._turns = turns
        self._topics = topics
        self._routes = routes
        self._policies = policies
        self._decisions = decisions
        self._meter = meter
        self._now_ms = now_ms
        self._tasks = OwnedTasks()
        self._clusters = clusters
        self._member = MemberOptions(session_timeout_ms=session_timeout_ms)
        self._members = {
            name: CoalescerMember(cluster, self._member, partial(self._owner, name))
            for name, cluster in clusters.items()
        }

    async def start(self) -> None:
        """Start the members without waiting for Kafka."""
        self._topics.on_change(self._topic_changed)
        for name, member in self._members.items():
            self._tasks.keep(member.run, f"coalescer of cluster {name}")
        self._look_again()

    async def close(self) -> None:
        """Finish the current transactions and leave the groups, in bounded time."""
        for member in self._members.values():
            member.close()
        await self._tasks.finish(_CLOSE_S)
        await self._tasks.end(_FINISH_S)

    def replace(self, policies: PolicyTable) -> None:
        """Put a reloaded configuration in force."""
        self._policies = policies
        self._routes.replace(policies)
        self._look_again()

    def prepare(self, name: str) -> None:
        """Prepare the namespace of a topic after a change of the topic or of its held topic."""
        topic = topic_of(name) or name
        self._routes.forget(topic)  # with a held topic its comparison may differ
        if self._rules(topic) is not None and self._topics.get(topic) is not None:
            self._routes.prepare((topic,))

    @property
    def partitions(self) -> int:
        """Return the number of partitions that this process owns."""
        return sum(len(member.owners) for member in self._members.values())

    def figures(self) -> dict[str, Figures]:
        """Return the figures of the events held in this process' partitions, by topic."""
        by_topic: dict[str, list[Figures]] = defaultdict(list)
        for member in self._members.values():
            for owner in member.owners:
                by_topic[owner.target.topic].append(owner.figures)
        return {topic: _sum(figures) for topic, figures in by_topic.items()}

    def _owner(
        self, cluster: str, consumer: AIOKafkaConsumer, owned: Owned, is_current: Callable[[], bool]
    ) -> PartitionOwner:
        topic = topic_of(owned.topic) or ""
        target = HeldPartition(topic, owned.topic, owned.partition)
        context = OwnerContext(
            cluster=self._clusters[cluster],
            # Rule 1: the id belongs to the partition, never to the process: a zombie is fenced.
            transactional_id=f"headgate.held.{cluster}.{topic}.{owned.partition}",
            decisions=self._decisions,
            meter=self._meter,
            route=partial(self._route, topic),
            topic_id=partial(self._topic_id, owned.topic),
            rules=partial(self._rules, topic),
            is_current=is_current,
            now_ms=self._now_ms,
            fenced_pause_s=2.5 * self._member.heartbeat_ms / 1000,
            turns=self._turns,
            report=partial(self._report, topic),
        )
        return PartitionOwner(consumer, target, context)

    def _report(self, topic: str, outcome: str, windows: Sequence[Window]) -> None:
        report(self._facts, self._policies.match(topic), topic, outcome, windows)

    def _route(self, topic: str) -> Route:
        try:
            return self._routes.find(topic)
        except Refused as refused:
            raise LogError(refused.failure.reason, refused.failure.detail, True) from refused

    def _topic_id(self, held: str) -> str:
        state = self._topics.get(held)
        if state is None:
            raise LogError("unknown_topic", f"there is no topic {held!r}", True)
        return state.topic_id.hex()

    def _rules(self, topic: str) -> CoalescingRules | None:
        policy = self._policies.match(topic)
        if policy is None or not is_there(policy, self._topics.get(held_topic(topic))):
            return None
        return rules_of(policy)

    def _topic_changed(self, before: TopicState | None, after: TopicState | None) -> None:
        state = after or before
        if state is None or topic_of(state.name) is None:
            return  # a start reports all topics, one after another
        if before is None or after is None:
            self._look_again()
        elif before.topic_id != after.topic_id:
            self._members[after.cluster].rejoin()

    def _look_again(self) -> None:
        for name, member in self._members.items():
            member.want(self._held_topics(name))

    def _held_topics(self, cluster: str) -> frozenset[str]:
        states = held_states(self._topics.states(), self._policies, cluster)
        return frozenset(state.name for state in states)


def held_states(
    states: Iterable[TopicState], policies: PolicyTable, cluster: str
) -> list[TopicState]:
    """Return the held topics that exist in a cluster and whose topics belong to it."""
    pairs = held_topics_of(states, policies).values()
    return [state for state, _ in pairs if state.cluster == cluster]


def rules_of(policy: TopicPolicy) -> CoalescingRules:
    """Return a topic's times and bounds. Without coalesce_quiet_ms no event waits."""
    quiet, longest = policy.coalesce_quiet_ms or 0, policy.coalesce_max_delay_ms
    times = WindowTimes(
        quiet, longest or 5 * quiet, policy.coalesce_burst_max_ms, policy.coalesce_leading
    )
    return CoalescingRules(times, HeldBounds(policy.coalesce_max_keys, policy.coalesce_max_bytes))


def _sum(parts: Sequence[Figures]) -> Figures:
    oldest = [part.oldest_ms for part in parts if part.oldest_ms is not None]
    return Figures(
        sum(part.keys for part in parts),
        sum(part.bytes for part in parts),
        min(oldest, default=None),
    )


# ---- one group member per cluster and process, and the owners of its partitions


_RETRY_S = 2.0

NewOwner = Callable[[AIOKafkaConsumer, Owned, Callable[[], bool]], PartitionOwner]


class CoalescerMember:
    """A member of one cluster's group.

    Attributes:
        owners: Owners of the partitions of this term.
    """

    def __init__(self, cluster: ClusterOptions, options: MemberOptions, new_owner: NewOwner):
        self.owners: list[PartitionOwner] = []
        self._cluster = cluster
        self._new_owner = new_owner
        self._topics: frozenset[str] = frozenset()
        self._wanted: frozenset[str] = frozenset()
        self._changed = asyncio.Event()
        self._is_closing = False
        self._tasks = OwnedTasks()
        self._membership = Membership(cluster, GROUP, options, self)

    def want(self, topics: frozenset[str]) -> None:
        """Own partitions of these held topics from now on."""
        if topics != self._wanted:
            self._wanted = topics
            self._changed.set()

    def rejoin(self) -> None:
        """Rejoin the group after a topic was recreated.

        The consumer may not have noticed the deletion, and would continue at offsets that the new
        topic does not have.
        """
        self._changed.set()

    def close(self) -> None:
        """Finish the current transactions and leave the group."""
        self._is_closing = True
        self._changed.set()

    async def run(self) -> None:
        """Stay in the group as long as there is a topic to own."""
        while not self._is_closing:
            self._changed.clear()
            if not self._wanted:
                await self._changed.wait()
                continue
            log.info("coalescer reads %s", ", ".join(sorted(self._wanted)))
            try:
                await self._membership.hold(self._wanted, self._changed)
            except READ_ERRORS as error:
                log.warning("coalescer rejoins its group: %s", kafka_error(error))
                await asyncio.sleep(_RETRY_S)

    # ---- membership.Holder

    def assigned(self, consumer: AIOKafkaConsumer, owned: Iterable[Owned]) -> None:
        """Start an owner for each partition; no state of an earlier term remains (rule 3)."""
        ownership = self._membership.ownership
        for partition in owned:
            owner = self._new_owner(consumer, partition, partial(ownership.is_current, partition))
            self.owners.append(owner)
            self._tasks.keep(owner.run, f"owner of {partition.topic}-{partition.partition}")

    async def ending(self) -> None:
        """No-op: EndTxn itself guards the transactions of owners that end after their terms."""

    async def revoked(self) -> None:
        """Let each owner finish its transaction, for a bounded time."""
        for owner in self.owners:
            owner.stop()
        await self._tasks.finish(_FINISH_S)
        await self._tasks.end(_DROP_S)
        self.owners = []


# ---- the lag of the held groups, for every gateway, also for one that owns no partition
#
# An event is lost if retention deletes it from its held topic before it is coalesced. So if the
# group has not passed the events of half a retention ago, new events are refused (rule 14).


_POLL_S = 5.0
_ANSWER_S = 10.0
_RETRY_AFTER_S = 30


class HeldLag(NamedTuple):
    """The lag of a held topic.

    Attributes:
        records: Number of held records that the group's offset does not cover yet.
        is_too_old: Some of them are older than half the retention.
    """

    records: int
    is_too_old: bool


class HeldWatch:
    """A watch of the lag of one cluster's held topics.

    Args:
        options: Options of the cluster.
        held: Returns the states of the held topics.
        now_ms: Wall clock, in milliseconds since 1970.
    """

    def __init__(
        self,
        options: ClusterOptions,
        held: Callable[[], Iterable[TopicState]],
        now_ms: Callable[[], int],
    ) -> None:
        self._options = options
        self._held = held
        self._now_ms = now_ms
        self.lags: dict[str, HeldLag] = {}

    async def run(self) -> None:
        """Poll the lag until cancelled."""
        consumer: AIOKafkaConsumer | None = None
        outage = Outage(time.monotonic)
        try:
            while True:
                states = list(self._held())
                if not states:
                    self.lags = {}
                else:
                    try:
                        async with asyncio.timeout(_ANSWER_S):
                            consumer = consumer or await self._connect()
                            self.lags = await self._poll(consumer, states)
                        if (away_s := outage.ends()) is not None:
                            extra = {"away_s": away_s}
                            log.info("lag of the held topics is known again", extra=extra)
                    except READ_ERRORS as error:
                        level = logging.WARNING if outage.begins() else logging.DEBUG
                        log.log(level, "lag of the held topics is unknown: %s", kafka_error(error))
                        await _drop(consumer)
                        consumer = None
                await asyncio.sleep(_POLL_S)
        finally:
            await _drop(consumer)

    def refusal(self, held: str) -> Failure | None:
        """Return the failure for a new event of this held topic; None if it may be held."""
        lag = self.lags.get(held)
        if lag is None or not lag.is_too_old:
            return None
        detail = (
            f"{lag.records} events in {held} wait for longer than half its retention: nothing "
            "more is held until the coalescer has caught up (runbook HeadgateHeldEventsWait)"
        )
        return Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=_RETRY_AFTER_S)

    async def _connect(self) -> AIOKafkaConsumer:
        # The consumer never subscribes, so it is no member: it only reads the group's offsets.
        consumer = open_consumer(self._options, group_id=GROUP, isolation_level="read_committed")
        try:
            await consumer.start()
        except BaseException:
            await _drop(consumer)
            raise
        return consumer

    async def _poll(
        self, consumer: AIOKafkaConsumer, states: Iterable[TopicState]
    ) -> dict[str, HeldLag]:
        lags = {}
        for state in states:
            client_of(consumer).add_topic(state.name)
            tps = [TopicPartition(state.name, number) for number in range(state.partitions)]
            committed = await read_commits(consumer, tps)
            starts = await consumer.beginning_offsets(tps)
            ends = await consumer.end_offsets(tps)
            # Without an offset the coalescer begins at the earliest record.
            reached = {
                tp: max(committed[tp].offset, starts[tp]) if tp in committed else starts[tp]
                for tp in tps
            }
            late = {tp for tp in tps if reached[tp] < ends[tp]}
            records = sum(ends[tp] - reached[tp] for tp in late)
            is_old = bool(late) and await self._is_too_old(consumer, state, late, reached)
            lags[state.name] = HeldLag(records, is_old)
        return lags

    async def _is_too_old(
        self,
        consumer: AIOKafkaConsumer,
        state: TopicState,
        late: Iterable[TopicPartition],
        reached: Mapping[TopicPartition, int],
    ) -> bool:
        """Return whether the first uncovered record is older than half the retention."""
        kept_ms = state.rules.kept_ms
        if kept_ms is None:
            return False
        since_ms = self._now_ms() - kept_ms // 2
        offsets = await consumer.offsets_for_times(dict.fromkeys(late, since_ms))
        # None: no record is younger than that, so all uncovered records are older.
        return any(first is None or reached[tp] < first.offset for tp, first in offsets.items())


async def _drop(consumer: AIOKafkaConsumer | None) -> None:
    if consumer is not None:
        await drop_consumer(consumer)
