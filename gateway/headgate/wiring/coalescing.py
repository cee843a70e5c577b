"""Wiring of a process' coalescer, with its own routes and its own connection to Redis."""

import logging
from functools import partial

from headgate.audits.facts import Facts
from headgate.backends.base import Suppression, Verdicts
from headgate.backends.owned import OwnedTasks
from headgate.coalescer.coalescer import Coalescer, HeldWatch, held_states
from headgate.coalescer.decisions import Decisions, Digests, Turns
from headgate.coalescer.windows import Figures
from headgate.ingest.complete import now_ms
from headgate.ingest.gate import Routes
from headgate.metrics.health import Dependency
from headgate.metrics.meter import HeldFigures
from headgate.model.internal_topics import Oddity, leftover, topic_of
from headgate.model.outcome import Failure
from headgate.model.policy import PolicyTable
from headgate.model.text import counted
from headgate.model.topics import TopicState
from headgate.suppression.sharded import AnySuppressor, States, Unsuppressed, redis_dependencies
from headgate.wiring.parts import Parts, suppressor_of

log = logging.getLogger("headgate.wiring")

_END_S = 5.0  # time for cancelled tasks to end


class Coalescing:
    """The coalescer of one process.

    Args:
        parts: The parts of the process.
        facts: Log of facts for the skew audit, if any.
    """

    def __init__(self, parts: Parts, facts: Facts | None = None) -> None:
        settings = parts.settings
        self._parts = parts
        self._suppressor: AnySuppressor | None = None
        self._policies = PolicyTable(settings.topics)
        compiler = parts.compiler(lambda: self._suppressor)
        routes = Routes(self._policies, parts.topics, compiler, holds=False)
        turns = Turns()
        digests = Digests(parts.helper, parts.meter.canonical_fallback, turns)
        decisions = Decisions(digests, self._connect, turns, parts.tracing.later)
        self._coalescer = Coalescer(
            parts.clusters,
            settings.coalescer.session_timeout_ms,
            parts.topics,
            routes,
            self._policies,
            decisions,
            parts.meter,
            now_ms,
            turns,
            facts,
        )

    async def start(self) -> None:
        """Begin to own partitions. The wait for Redis is bounded."""
        if self._suppressor is not None:
            await self._suppressor.start()
        self._parts.topics.on_change(self._topic_changed)
        await self._coalescer.start()

    async def close(self) -> None:
        """Finish transactions, leave the groups and send the last settlements; bounded."""
        await self._coalescer.close()
        if self._suppressor is not None:
            await self._suppressor.close()

    def replace(self, policies: PolicyTable) -> None:
        """Activate a reloaded configuration."""
        self._policies = policies
        self._coalescer.replace(policies)

    def figures(self) -> dict[str, Figures]:
        """Return the figures of held events in this process' partitions, by topic."""
        return self._coalescer.figures()

    def suppression(self) -> States:
        """Return the suppression state of each topic that this process compares."""
        return {} if self._suppressor is None else self._suppressor.states()

    def dependencies(self) -> list[Dependency]:
        """Return the coalescer, with its number of partitions, and Redis."""
        owned = self._coalescer.partitions
        rows = [Dependency("coalescer", True, False, f"owns {counted(owned, 'partition')}")]
        if self._suppressor is not None:
            rows += redis_dependencies(self._suppressor, self.suppression(), self._policies)
        return rows

    def _connect(self, verdicts: Verdicts) -> Suppression:
        # A transaction ends with the next owner's InitProducerId, or by its timeout.
        self._suppressor = suppressor_of(
            self._parts, verdicts, fences_by_writing=False, name="suppression of held events"
        )
        return self._suppressor or Unsuppressed(verdicts)

    def _topic_changed(self, before: TopicState | None, after: TopicState | None) -> None:
        if after is not None:
            self._coalescer.prepare(after.name)


class HeldTopics:
    """The held topics of a process: their lag, its limit and the coalescer.

    Args:
        parts: The parts of the process.
        facts: Log of facts for the skew audit, if any.
        coalesces: Whether this process runs the coalescer; else another process does.
    """

    def __init__(self, parts: Parts, facts: Facts | None, *, coalesces: bool) -> None:
        self._policies = PolicyTable(parts.settings.topics)
        self._topics = parts.topics
        # oddities that the log already has, by held topic
        self._reported: dict[str, Oddity] = {}
        self._watches = {
            name: HeldWatch(options, partial(self._states, name), now_ms)
            for name, options in parts.clusters.items()
        }
        self._coalescing = Coalescing(parts, facts) if coalesces else None
        self._tasks = OwnedTasks()

    async def start(self) -> None:
        """Begin to poll and to coalesce."""
        for name, watch in self._watches.items():
            self._tasks.keep(watch.run, f"lag of held topics of cluster {name}")
        self._topics.on_change(self._topic_changed)
        self._tell_leftovers()
        if self._coalescing is not None:
            await self._coalescing.start()

    async def close(self) -> None:
        """Stop polling and leave the groups; bounded."""
        if self._coalescing is not None:
            await self._coalescing.close()
        await self._tasks.end(_END_S)

    def replace(self, policies: PolicyTable) -> None:
        """Activate a reloaded configuration."""
        self._policies = policies
        self._tell_leftovers()
        if self._coalescing is not None:
            self._coalescing.replace(policies)

    def refusal(self, held: str) -> Failure | None:
        """Return the reason why a held topic accepts no more events now, if any."""
        refusals = (watch.refusal(held) for watch in self._watches.values())
        return next((failure for failure in refusals if failure is not None), None)

    def dependencies(self) -> list[Dependency]:
        """Return the dependencies of this process' coalescer, except Kafka."""
        return [] if self._coalescing is None else self._coalescing.dependencies()

    def suppression(self) -> States:
        """Return the suppression state of each topic that this process' coalescer compares."""
        return {} if self._coalescing is None else self._coalescing.suppression()

    def held_bytes(self) -> int:
        """Return the size of all events that this process holds."""
        return sum(each.bytes for each in self._figures().values())

    def rows(self) -> dict[str, HeldFigures]:
        """Return the figures of each held topic, by topic."""
        figures = self._figures()
        lags = {
            topic_of(name) or "": lag.records
            for watch in self._watches.values()
            for name, lag in watch.lags.items()
        }
        topics = lags.keys() | figures.keys()
        return {topic: held_row(figures.get(topic), lags.get(topic), now_ms()) for topic in topics}

    def _figures(self) -> dict[str, Figures]:
        return {} if self._coalescing is None else self._coalescing.figures()

    def _states(self, cluster: str) -> list[TopicState]:
        return held_states(self._topics.states(), self._policies, cluster)

    def _topic_changed(self, before: TopicState | None, after: TopicState | None) -> None:
        state = after or before
        if (before is None or after is None) and state is not None and topic_of(state.name):
            self._tell_leftovers()

    def _tell_leftovers(self) -> None:
        """Log each held topic that the configuration does not ask for, once as it appears."""
        oddities = [leftover(state, self._policies) for state in self._topics.states()]
        reported = self._reported
        self._reported = {oddity.topic: oddity.oddity for oddity in oddities if oddity is not None}
        for oddity in oddities:
            if oddity is not None and reported.get(oddity.topic) is not oddity.oddity:
                log.warning("%s. %s", oddity.text, oddity.fix)


def held_row(figures: Figures | None, lag: int | None, now_ms: int) -> HeldFigures:
    """Return a topic's figures of held events for metrics and pages."""
    if figures is None:
        return HeldFigures(None, None, None, lag)
    oldest_ms = now_ms if figures.oldest_ms is None else figures.oldest_ms
    return HeldFigures(figures.keys, figures.bytes, max(0, now_ms - oldest_ms) / 1000, lag)


def cluster_of(name: str, policies: PolicyTable) -> str | None:
    """Return the cluster of a topic, also a held one, by its policy; None if no policy matches."""
    policy = policies.match(topic_of(name) or name)
    return None if policy is None else policy.cluster
