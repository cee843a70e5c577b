"""The coalescer of one process: a group member per cluster and an owner per partition."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from aiokafka import AIOKafkaConsumer

from headgate.audits.facts import Facts
from headgate.backends.owned import OwnedTasks
from headgate.coalescer.decisions import CoalescingRules, Decisions, LogError, Turns
from headgate.coalescer.partition import (
    FINISH_S,
    CoalescerMember,
    HeldPartition,
    OwnerContext,
    PartitionOwner,
)
from headgate.coalescer.windows import Figures, HeldBounds, Window, WindowTimes
from headgate.consumer.options import MemberOptions
from headgate.consumer.ownership import Owned
from headgate.ingest.gate import Routes
from headgate.kafka.options import ClusterOptions
from headgate.kafka.topics import KafkaTopics
from headgate.metrics.meter import Meter
from headgate.model.internal_topics import held_topic, held_topics_of, is_there, topic_of
from headgate.model.outcome import OutcomeName, Refused
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.route import Route
from headgate.model.topics import TopicState

_CLOSE_S = 4 * FINISH_S  # finish, drop, leave the group


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
        await self._tasks.end(FINISH_S)

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
