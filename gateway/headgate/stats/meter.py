"""The worker's figures. Plain Python numbers on the hot path; `collect` makes them a snapshot.

Not safe for use from several threads: the event loop's thread feeds and reads it.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from headgate.core.outcome import Name, Outcome
from headgate.core.suppression.states import STATES, TopicSuppression
from headgate.stats import process, snapshot
from headgate.stats.gauges import HeldFigures, of_held, of_partitions, of_spool
from headgate.stats.labels import MAX_PAIRS, Labels
from headgate.stats.series import Series
from headgate.stats.snapshot import Buckets, Exemplar, Pair, Snapshot
from headgate.stats.stall import Peaks
from headgate.stats.strangers import Strangers, StrangersSeries
from headgate.stats.times import Times, observe
from headgate.telemetry.metric import OTHER, SECONDS

MAX_KNOWN = 4 * MAX_PAIRS

Clock = Callable[[], float]  # seconds since 1970


class Depth(NamedTuple):
    """One lane: events and bytes that wait in it or are with the producer."""

    topic: str
    partition: int
    events: int
    bytes: int


class InFlight(NamedTuple):
    """What is admitted and not yet answered."""

    events: int
    bytes: int


class Meter:
    """Counts for one worker. Label texts given here must be bounded, except where said."""

    def __init__(self, labels: Labels, clock: Clock) -> None:
        self._labels = labels
        self._clock = clock
        self._series: dict[Pair, Series] = {}
        self._known: dict[tuple[str, str], Series | StrangersSeries] = {}
        self._strangers = Strangers()
        self._requests: dict[tuple[str, int], Times] = {}
        self._acks: dict[str, Times] = {}
        self._written: dict[tuple[str, int], list[int]] = {}  # records and bytes
        self._counters: dict[str, dict[tuple[str, ...], float]] = {}
        self._stalls = Peaks()
        self._tasks = process.Tasks(clock)
        self._depths: Callable[[], Iterable[Depth | tuple[str, int, int, int]]] = tuple
        self._held_rows: Callable[[], Mapping[str, HeldFigures]] = dict
        self._spool_rows: Callable[[], Mapping[str, tuple[int, int, float]]] = dict
        self._suppression: Callable[[], Mapping[str, TopicSuppression]] = dict
        self._in_flight: Callable[[], InFlight | tuple[int, int]] = lambda: (0, 0)

    def relabel(self, labels: Labels) -> None:
        """Use a new configuration's names; what was counted before keeps its labels."""
        self._labels = labels
        self._known = {}

    def watch(
        self,
        depths: Callable[[], Iterable[Depth | tuple[str, int, int, int]]],
        in_flight: Callable[[], InFlight | tuple[int, int]],
    ) -> None:
        """Read these whenever a snapshot is taken: (topic, partition, events, bytes) a lane, and
        (events, bytes) in flight."""
        self._depths = depths
        self._in_flight = in_flight

    def watch_held(self, rows: Callable[[], Mapping[str, HeldFigures]]) -> None:
        """Read what is held, by topic, whenever a snapshot is taken."""
        self._held_rows = rows

    def watch_spool(self, rows: Callable[[], Mapping[str, tuple[int, int, float]]]) -> None:
        """Read what is spooled (see `gauges.of_spool`), whenever a snapshot is taken."""
        self._spool_rows = rows

    def watch_suppression(self, states: Callable[[], Mapping[str, TopicSuppression]]) -> None:
        """Read whether each suppressing topic is suppressed, whenever a snapshot is taken."""
        self._suppression = states

    def account(
        self,
        producer: str,
        topic: str,
        outcomes: Sequence[Outcome],
        sizes: Sequence[int],
        request_id: str = "",
    ) -> None:
        """Count a request once all its outcomes are known; any producer and topic text will do.

        sizes: bytes of each event's value as sent, in the order of outcomes. The lists are kept
        for up to a second and must not be changed afterwards.  request_id: as its client has it.
        """
        series = self._known.get((producer, topic))
        if series is None:
            series = self._find(producer, topic)
        series.add(self._clock(), outcomes, sizes, request_id)

    def oversized(self, producer: str, topic: str, action: str) -> None:
        """Count an event that was too large and was published by this strategy."""
        series = self._known.get((producer, topic)) or self._find(producer, topic)
        series.oversized(self._clock(), action)

    def coalesced(self, producer: str, topic: str, outcome: str, events: int, size: int) -> None:
        """Count what became of held events, once it is committed. size: bytes of their values."""
        series = self._known.get((producer, topic)) or self._find(producer, topic)
        series.coalesced(self._clock(), outcome, events, size)

    def facts(self, topic: str, result: str, count: int) -> None:
        """Count facts: written, or why they were dropped. topic: whose events they are of."""
        self._add("headgate_facts_total", (self._labels.topic(topic), result), count)

    def owner_restarted(self, topic: str, reason: str) -> None:
        """Count an owner of a held partition that had to begin again. topic: one that is held."""
        self._add("headgate_coalescer_restarts_total", (topic, reason), 1)

    def drained(self, topic: str, events: int) -> None:
        """Count spooled events that were published. topic: one of the configuration."""
        self._add("headgate_spool_drained_total", (topic,), events)

    def repeated(self, topic: str, events: int) -> None:
        """Count spooled events that were handed over once more, perhaps for a second time."""
        self._add("headgate_spool_repeated_total", (topic,), events)

    def set_aside(self, topic: str, events: int) -> None:
        """Count spooled events that nobody publishes any more."""
        self._add("headgate_spool_aside_total", (topic,), events)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request. route: the route's template, never the path."""
        observe(self._requests, (route, status), seconds)

    def exemplar(self, route: str, status: int, seconds: float, trace_id: str) -> None:
        """Keep a request that was counted before, and is traced, as its bucket's example."""
        row = self._requests.get((route, status))
        if row is not None:
            found = Exemplar(trace_id, seconds, self._clock())
            row.exemplars[bisect_left(SECONDS, seconds)] = found

    def acknowledged(
        self, topic: str, partition: int, seconds: float, records: int, size: int
    ) -> None:
        """Count a lane's batch that Kafka acknowledged. topic: one that Kafka has.

        size: bytes of the records, as the lane counts them.
        """
        observe(self._acks, topic, seconds)
        written = self._written.get((topic, partition))
        if written is None:
            written = self._written[topic, partition] = [0, 0]
        written[0] += records
        written[1] += size

    def rebuilt(self, cluster: str, reason: str) -> None:
        """Count a Kafka producer that was rebuilt."""
        self._add("headgate_producer_rebuilds_total", (cluster, reason), 1)

    def bypassed(self, reason: str, count: int) -> None:
        """Count events of suppressing topics that were published without asking Redis."""
        self._add("headgate_suppression_bypassed_total", (reason,), count)

    def canonical_fallback(self, topic: str, reason: str) -> None:
        """Count an event whose bytes were compared, not its JSON value. topic: one of Kafka's."""
        labels = (self._labels.topic(topic), reason)
        self._add("headgate_canonical_fallbacks_total", labels, 1)

    def identity_bypassed(self, reason: str, count: int) -> None:
        """Count requests and events that were not recognised because Redis was not asked."""
        self._add("headgate_identity_bypassed_total", (reason,), count)

    def spans(self, result: str, count: int) -> None:
        """Count spans of traces by what became of them."""
        self._add("headgate_trace_spans_total", (result,), count)

    def keys_fetched(self, result: str) -> None:
        """Count a fetch of the issuer's keys."""
        self._add("headgate_issuer_keys_fetches_total", (result,), 1)

    def quota_rejected(self, producer: str, count: int) -> None:
        """Count events refused by quota; any producer text will do."""
        self._add("headgate_quota_rejected_total", (self._labels.producer(producer),), count)

    def loop_stall(self, seconds: float) -> None:
        """Note how long the event loop was held up."""
        self._stalls.note(self._clock(), seconds)

    def snapshot(self, with_details: bool = True) -> bytes:
        """Everything counted so far, as MessagePack."""
        return snapshot.encode(self.collect(with_details))

    def collect(self, with_details: bool = True) -> Snapshot:
        """Everything counted so far. with_details: also sketches and rejects, which are larger."""
        collected = Snapshot(
            counters={name: dict(values) for name, values in self._counters.items()},
            gauges=self._gauges(),
            histograms=self._histograms(),
            strangers=self._strangers.collect() if with_details else {},
        )
        collected.counters["headgate_worker_cpu_seconds_total"] = process.cpu_seconds()
        collected.counters |= of_partitions(self._written)
        for pair, series in self._series.items():
            series.fold()
            _put_series(collected, pair, series)
            if with_details:
                collected.details[pair] = series.detail()
        return collected

    def _find(self, producer: str, topic: str) -> Series | StrangersSeries:
        pair = Pair(self._labels.producer(producer), self._labels.topic(topic))
        series = self._series.get(pair)
        if series is None:
            if len(self._series) >= MAX_PAIRS:
                pair = Pair(OTHER, OTHER)
            series = self._series.setdefault(pair, Series())
        if len(self._known) >= MAX_KNOWN:  # clients choose their names
            self._known.clear()
        is_stranger = self._labels.producer(producer) == OTHER
        found = StrangersSeries(producer, series, self._strangers) if is_stranger else series
        self._known[producer, topic] = found
        return found

    def _add(self, name: str, labels: tuple[str, ...], count: float) -> None:
        values = self._counters.get(name)
        if values is None:
            values = self._counters[name] = {}
        values[labels] = values.get(labels, 0) + count

    def _gauges(self) -> dict[str, dict[tuple[str, ...], float]]:
        depths: dict[tuple[str, ...], float] = {
            (topic, str(partition)): events for topic, partition, events, _ in self._depths()
        }
        events, size = self._in_flight()
        return {
            **of_held(self._held_rows()),
            **of_spool(self._spool_rows()),
            "headgate_suppression_state": self._suppression_states(),
            "headgate_lane_depth": depths,
            "headgate_in_flight_events": {(): events},
            "headgate_in_flight_bytes": {(): size},
            "headgate_event_loop_stall_seconds": {(): self._stalls.largest(self._clock())},
            "headgate_worker_memory_bytes": {(): process.memory_bytes()},
            "headgate_worker_tasks": {(): self._tasks.count()},
        }

    def _suppression_states(self) -> dict[tuple[str, ...], float]:
        counts: dict[tuple[str, ...], float] = {}
        for topic, now in self._suppression().items():
            label = self._labels.topic(topic)
            for state in STATES:  # also those with 0, so that an alert ends when a state does
                counts[label, state] = counts.get((label, state), 0) + (state == now.state)
        return counts

    def _histograms(self) -> dict[str, dict[tuple[str, ...], Buckets]]:
        requests: dict[tuple[str, ...], Buckets] = {
            (route, str(status)): row.frozen() for (route, status), row in self._requests.items()
        }
        return {
            "headgate_request_seconds": requests,
            "headgate_ack_seconds": {(topic,): row.frozen() for topic, row in self._acks.items()},
            "headgate_event_bytes": {},
        }


def _put_series(into: Snapshot, pair: Pair, series: Series) -> None:
    """Add a pair's figures under each metric that they belong to."""
    events = into.counters.setdefault("headgate_events_total", {})
    for (outcome, reason), count in series.ended.items():
        events[(*pair, str(outcome), str(reason))] = count
    for name, value in (
        ("headgate_suppressed_bytes_total", series.suppressed_bytes),
        ("headgate_keyless_total", series.keyless),
        ("headgate_coalesced_total", series.ended.get((Name.SUPERSEDED, ""), 0)),
    ):
        if value:
            into.counters.setdefault(name, {})[pair] = value
    oversize = series.oversize_actions()
    if oversize:
        by_action = into.counters.setdefault("headgate_oversize_total", {})
        by_action.update({(*pair, action): count for action, count in oversize.items()})
    unknown = sum(count for (outcome, _), count in series.ended.items() if outcome == "unknown")
    if unknown:
        by_topic = into.counters.setdefault("headgate_unknown_outcome_total", {})
        by_topic[(pair.topic,)] = by_topic.get((pair.topic,), 0) + unknown
    sizes = Buckets(list(series.bucket_counts), series.bytes)
    into.histograms["headgate_event_bytes"][pair] = sizes
