"""The worker's metrics: plain Python numbers on the hot path; `collect` makes them a snapshot.

The meter is not thread-safe: the event loop's thread feeds and reads it.
"""

import asyncio
import os
import resource
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from headgate.metrics import snapshot
from headgate.metrics.catalogue import OTHER, SECONDS
from headgate.metrics.series import Ended, Series, UnconfiguredProducers
from headgate.metrics.snapshot import Buckets, Exemplar, Pair, Snapshot
from headgate.model.cache import BoundedCache
from headgate.model.outcome import Outcome, OutcomeName

# The last line of defence: a pattern such as `orders.*` may match too many topics for /metrics.
# Each pair costs at most some 20 KiB of sketches, so this is at most 20 MB per worker.
MAX_PAIRS = 1000


class Labels:
    """The names in the configuration. A reload replaces all of them at once.

    Args:
        producers: The configured producers.
        knows_topic: Returns whether a topic is configured and exists in Kafka. A match of a
            pattern alone is not enough: clients choose such names freely.
    """

    __slots__ = ("_knows_topic", "_producers")

    def __init__(self, producers: Container[str], knows_topic: Callable[[str], bool]) -> None:
        self._producers = producers
        self._knows_topic = knows_topic

    def producer(self, name: str) -> str:
        """Return the producer's label."""
        return name if name in self._producers else OTHER

    def topic(self, name: str) -> str:
        """Return the topic's label."""
        return name if self._knows_topic(name) else OTHER


# ---- gauges of other parts of the worker, for a snapshot

Gauges = dict[str, dict[tuple[str, ...], float]]


class HeldFigures(NamedTuple):
    """A topic's events that this worker holds; None if it owns no partition of it.

    The lag is the number of records that the group has not processed; None if it is not known yet.
    """

    keys: int | None
    bytes: int | None
    oldest_seconds: float | None
    lag: int | None


_HELD_GAUGES = (
    "headgate_held_keys",
    "headgate_held_bytes",
    "headgate_held_oldest_seconds",
    "headgate_held_lag",
)


_SPOOL_GAUGES = (
    "headgate_spool_events",
    "headgate_spool_bytes",
    "headgate_spool_oldest_seconds",
)


def held_gauges(rows: Mapping[str, HeldFigures]) -> Gauges:
    """Return the gauges of held events by topic."""
    return _gauges(_HELD_GAUGES, rows)


def spool_gauges(rows: Mapping[str, tuple[int, int, float]]) -> Gauges:
    """Return the gauges of spooled events by topic.

    Args:
        rows: Events, bytes, and the age of the oldest in seconds, by topic.
    """
    return _gauges(_SPOOL_GAUGES, rows)


def partition_counters(rows: Mapping[tuple[str, int], Sequence[int]]) -> Gauges:
    """Return counters from records and bytes by topic and partition."""
    records: dict[tuple[str, ...], float] = {}
    by_topic: dict[tuple[str, ...], float] = {}
    sizes: dict[tuple[str, ...], float] = {}
    for (topic, partition), (count, size) in rows.items():
        labels = topic, str(partition)
        records[labels], sizes[labels] = count, size
        by_topic[(topic,)] = by_topic.get((topic,), 0) + count
    return {
        "headgate_acknowledged_records_total": by_topic,
        "headgate_partition_records_total": records,
        "headgate_partition_bytes_total": sizes,
    }


def _gauges(names: tuple[str, ...], rows: Mapping[str, tuple[float | None, ...]]) -> Gauges:
    gauges: Gauges = {name: {} for name in names}
    for topic, row in rows.items():
        for name, value in zip(names, row, strict=True):
            if value is not None:
                gauges[name][(topic,)] = value
    return gauges


# ---- metrics of the process

_TASKS_EVERY_S = 15.0  # counting 10,000 of them holds the event loop for some milliseconds
_STATM = Path("/proc/self/statm")


def cpu_seconds() -> dict[tuple[str, ...], float]:
    """Return the CPU seconds used so far, by mode."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {("user",): used.ru_utime, ("system",): used.ru_stime}


def memory_bytes() -> float:
    """Return the resident memory in bytes; 0 without /proc."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except FileNotFoundError:
        return 0.0
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


class Tasks:
    """The number of tasks in this thread's event loop, counted every 15 s.

    Args:
        clock: The time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counted = 0.0
        self._count = 0.0

    def count(self) -> float:
        """Return a count that is at most 15 s old; 0 without a loop."""
        now = self._clock()
        if abs(now - self._counted) >= _TASKS_EVERY_S:  # the clock may have gone back
            self._counted = now
            try:
                self._count = float(len(asyncio.all_tasks()))
            except RuntimeError:
                self._count = 0.0
        return self._count


_SECONDS_KEPT = 60
# A stall of 50 ms is seen as at least 30 ms; 50 wake-ups a second cost 0.1 % CPU.
_INTERVAL_S = 0.02


class Peaks:
    """The largest value of each of the last seconds; a scraper of any pace sees every stall."""

    __slots__ = ("_by_second",)

    def __init__(self) -> None:
        self._by_second: dict[int, float] = {}

    def note(self, now_s: float, value: float) -> None:
        """Note a value at now (seconds)."""
        second = int(now_s)
        self._by_second[second] = max(value, self._by_second.get(second, 0.0))
        if len(self._by_second) > _SECONDS_KEPT:
            del self._by_second[next(iter(self._by_second))]

    def largest(self, now_s: float) -> float:
        """Return the largest value of the last minute; 0 if there was none."""
        oldest = now_s - _SECONDS_KEPT
        return max((peak for at, peak in self._by_second.items() if at > oldest), default=0.0)


async def watch_loop(note: Callable[[float], None], interval_s: float = _INTERVAL_S) -> None:
    """Measure until cancelled; `note` takes the delay of each wake-up in seconds."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval_s
        await asyncio.sleep(interval_s)
        note(max(0.0, loop.time() - due))


# ---- the meter

Label = TypeVar("Label")


class Times:
    """The mutable form of `Buckets`."""

    __slots__ = ("counts", "exemplars", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.sum = 0.0
        self.exemplars: dict[int, Exemplar] = {}

    def frozen(self) -> Buckets:
        """Return the figures counted so far."""
        return Buckets(list(self.counts), self.sum, dict(self.exemplars))


def observe(table: dict[Label, Times], label: Label, seconds: float) -> None:
    """Count one duration under a label."""
    row = table.get(label)
    if row is None:
        row = table[label] = Times()
    row.counts[bisect_left(_BOUNDS, seconds)] += 1
    row.sum += seconds


MAX_KNOWN = 4 * MAX_PAIRS
FOLD_EVENTS: Final = 4000  # bounds the memory of `account`; counting so many takes about 1 ms

# A list: a compiled function would make each number of a tuple anew.
_BOUNDS: Final = list(SECONDS)

Clock = Callable[[], float]  # seconds since 1970


class Meter:
    """The metrics of one worker. Texts of labels must be bounded, unless a method accepts any."""

    def __init__(self, labels: Labels, clock: Clock) -> None:
        self._labels = labels
        self._clock = clock
        self._ended: list[tuple[str, str, Ended]] = []  # producer, topic, request: not counted yet
        self._ended_events = 0
        self._series: dict[Pair, Series] = {}
        self._known = BoundedCache[tuple[str, str], Series](MAX_KNOWN)
        self._unconfigured = UnconfiguredProducers()
        self._requests: dict[tuple[str, int], Times] = {}
        self._acks: dict[str, Times] = {}
        self._written: dict[tuple[str, int], list[int]] = {}  # records and bytes
        self._counters: dict[str, dict[tuple[str, ...], float]] = {}
        self._aside: dict[str, int] = {}  # set-aside events by topic
        self._stalls = Peaks()
        self._tasks = Tasks(clock)
        self._depths: Callable[[], Iterable[tuple[str, int, int, int]]] = tuple
        self._held_rows: Callable[[], Mapping[str, HeldFigures]] = dict
        self._spool_rows: Callable[[], Mapping[str, tuple[int, int, float]]] = dict
        self._suppression_rows: Callable[[], Iterable[tuple[str, str, bool]]] = tuple
        self._token_uses: Callable[[], dict[str, float]] = dict
        self._in_flight: Callable[[], tuple[int, int]] = lambda: (0, 0)

    def relabel(self, labels: Labels) -> None:
        """Use a new configuration's names; earlier counts keep their labels."""
        self._fold()
        self._labels = labels
        self._known = BoundedCache(MAX_KNOWN)

    def watch(
        self,
        depths: Callable[[], Iterable[tuple[str, int, int, int]]],
        in_flight: Callable[[], tuple[int, int]],
    ) -> None:
        """Read these callbacks at every snapshot.

        Args:
            depths: Returns (topic, partition, events, bytes) for each lane.
            in_flight: Returns (events, bytes) in flight.
        """
        self._depths = depths
        self._in_flight = in_flight

    def watch_held(self, rows: Callable[[], Mapping[str, HeldFigures]]) -> None:
        """Read the held events, by topic, at every snapshot."""
        self._held_rows = rows

    def watch_tokens(self, uses: Callable[[], dict[str, float]]) -> None:
        """Read the last uses of tokens (`Snapshot.tokens`) at every snapshot with details."""
        self._token_uses = uses

    def watch_spool(self, rows: Callable[[], Mapping[str, tuple[int, int, float]]]) -> None:
        """Read the spooled events (see `spool_gauges`) at every snapshot."""
        self._spool_rows = rows

    def watch_suppression(self, rows: Callable[[], Iterable[tuple[str, str, bool]]]) -> None:
        """Read the states of suppressing topics at every snapshot.

        Args:
            rows: Returns (topic, state, whether the topic is in this state now), for every state.
        """
        self._suppression_rows = rows

    def account(
        self,
        producer: str,
        topic: str,
        outcomes: Sequence[Outcome],
        sizes: Sequence[int],
        request_id: str = "",
    ) -> None:
        """Count a request after its last outcome; any producer and topic text is accepted.

        The lists are kept for up to a second and must not be changed afterwards.

        Args:
            producer: The sender.
            topic: The topic.
            outcomes: Outcome of each event.
            sizes: Bytes of each event's value as sent, in the same order.
            request_id: The request's id for its client.

        Raises:
            ValueError: The lists differ in length: raised here, to the caller, and not when many
                requests are counted together.
        """
        if len(outcomes) != len(sizes):
            raise ValueError(f"{len(outcomes)} outcomes, but {len(sizes)} sizes")
        self._ended.append((producer, topic, (self._clock(), outcomes, sizes, request_id)))
        self._ended_events += len(outcomes)
        if self._ended_events >= FOLD_EVENTS:
            self._fold()

    def _fold(self) -> None:
        """Count the requests that have ended since the last fold, about once a second."""
        ended, self._ended, self._ended_events = self._ended, [], 0
        by_pair: dict[tuple[str, str], list[Ended]] = {}
        for producer, topic, request in ended:
            pair = producer, topic
            requests = by_pair.get(pair)
            if requests is None:
                requests = by_pair[pair] = []
            requests.append(request)
        for (producer, topic), requests in by_pair.items():
            self._series_of(producer, topic).count(requests)
            if self._labels.producer(producer) == OTHER:
                events = sum([len(outcomes) for _, outcomes, _, _ in requests])
                self._unconfigured.add(producer, events, requests[-1][0])

    def oversized(self, producer: str, topic: str, action: str) -> None:
        """Count an oversize event that this strategy published."""
        self._series_of(producer, topic).oversized(self._clock(), action)

    def coalesced(self, producer: str, topic: str, outcome: str, events: int, size: int) -> None:
        """Count the outcome of held events after their commit; `size` is their values' bytes."""
        self._series_of(producer, topic).coalesced(self._clock(), outcome, events, size)

    def facts(self, topic: str, result: str, count: int) -> None:
        """Count facts of a topic's events: written, or the reason of their drop."""
        self._add("headgate_facts_total", (self._labels.topic(topic), result), count)

    def owner_restarted(self, topic: str, reason: str) -> None:
        """Count a restart of the owner of a held topic's partition."""
        self._add("headgate_coalescer_restarts_total", (topic, reason), 1)

    def drained(self, topic: str, events: int) -> None:
        """Count spooled events of a configured topic that were published."""
        self._add("headgate_spool_drained_total", (topic,), events)

    def repeated(self, topic: str, events: int) -> None:
        """Count spooled events that were sent once more, perhaps for a second time."""
        self._add("headgate_spool_repeated_total", (topic,), events)

    def set_aside(self, topic: str, events: int) -> None:
        """Count spooled events that are set aside and not published."""
        self._add("headgate_spool_aside_total", (topic,), events)
        self._aside[topic] = self._aside.get(topic, 0) + events

    def found_aside(self, events: Mapping[str, int]) -> None:
        """Take the numbers of set-aside events, by topic, from the disk."""
        self._aside = dict(events)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request; `route` is the route's template, never the path."""
        observe(self._requests, (route, status), seconds)

    def exemplar(self, route: str, status: int, seconds: float, trace_id: str) -> None:
        """Keep a traced request that was already counted as its bucket's exemplar."""
        row = self._requests.get((route, status))
        if row is not None:
            example = Exemplar(trace_id, seconds, self._clock())
            row.exemplars[bisect_left(_BOUNDS, seconds)] = example

    def acknowledged(
        self, topic: str, partition: int, seconds: float, records: int, size: int
    ) -> None:
        """Count a lane's batch that Kafka acknowledged.

        Args:
            topic: A topic that Kafka has.
            partition: Its partition.
            seconds: Time until the acknowledgement.
            records: Number of records.
            size: Bytes of the records, as the lane counts them.
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
        """Count events of suppressing topics that were published without a lookup in Redis.

        Args:
            reason: redis_error, redis_timeout, redis_slow, redis_full, breaker_open, crowded or
                internal.
            count: Number of events.
        """
        self._add("headgate_suppression_bypassed_total", (reason,), count)

    def canonical_fallback(self, topic: str, reason: str) -> None:
        """Count an event of one of Kafka's topics that was compared by bytes, not by JSON value."""
        labels = (self._labels.topic(topic), reason)
        self._add("headgate_canonical_fallbacks_total", labels, 1)

    def identity_bypassed(self, reason: str, count: int) -> None:
        """Count requests and events that continued without a lookup in Redis.

        Args:
            reason: not_configured, redis_error, redis_timeout, redis_slow, breaker_open, internal;
                backlog for ends that were not remembered.
            count: Number of requests or events.
        """
        self._add("headgate_identity_bypassed_total", (reason,), count)

    def spans(self, result: str, count: int) -> None:
        """Count spans by result: exported, refused or dropped."""
        self._add("headgate_trace_spans_total", (result,), count)

    def keys_fetched(self, result: str) -> None:
        """Count a fetch of the issuer's keys."""
        self._add("headgate_issuer_keys_fetches_total", (result,), 1)

    def quota_rejected(self, producer: str, count: int) -> None:
        """Count events refused by quota; any producer text is accepted."""
        self._add("headgate_quota_rejected_total", (self._labels.producer(producer),), count)

    def loop_stall(self, seconds: float) -> None:
        """Note the length of a stall of the event loop."""
        self._stalls.note(self._clock(), seconds)

    def snapshot(self, with_details: bool = True) -> bytes:
        """Return all metrics counted so far, as MessagePack."""
        return snapshot.encode(self.collect(with_details))

    def collect(self, with_details: bool = True) -> Snapshot:
        """Return all metrics counted so far.

        Args:
            with_details: Include sketches and rejects, which are larger.
        """
        self._fold()
        collected = Snapshot(
            counters={name: dict(values) for name, values in self._counters.items()},
            gauges=self._gauges(),
            histograms=self._histograms(),
            unconfigured=self._unconfigured.collect() if with_details else {},
            tokens=self._token_uses() if with_details else {},
        )
        collected.counters["headgate_worker_cpu_seconds_total"] = cpu_seconds()
        collected.counters |= partition_counters(self._written)
        for pair, series in self._series.items():
            series.fold_keys()
            _put_series(collected, pair, series)
            if with_details:
                collected.details[pair] = series.detail()
        return collected

    def _series_of(self, producer: str, topic: str) -> Series:
        cached = self._known.get((producer, topic))
        if cached is not None:
            return cached
        pair = Pair(self._labels.producer(producer), self._labels.topic(topic))
        series = self._series.get(pair)
        if series is None:
            if len(self._series) >= MAX_PAIRS:
                pair = Pair(OTHER, OTHER)
            series = self._series.setdefault(pair, Series())
        return self._known.put((producer, topic), series)

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
            **held_gauges(self._held_rows()),
            **spool_gauges(self._spool_rows()),
            "headgate_spool_aside_events": {(topic,): n for topic, n in self._aside.items()},
            "headgate_suppression_state": self._suppression_states(),
            "headgate_lane_depth": depths,
            "headgate_in_flight_events": {(): events},
            "headgate_in_flight_bytes": {(): size},
            "headgate_event_loop_stall_seconds": {(): self._stalls.largest(self._clock())},
            "headgate_worker_memory_bytes": {(): memory_bytes()},
            "headgate_worker_tasks": {(): self._tasks.count()},
        }

    def _suppression_states(self) -> dict[tuple[str, ...], float]:
        counts: dict[tuple[str, ...], float] = {}
        for topic, state, is_current in self._suppression_rows():
            labels = (self._labels.topic(topic), state)
            # Zeros, too, so that an alert ends with its state.
            counts[labels] = counts.get(labels, 0) + is_current
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
    """Add a pair's figures to the metrics that they belong to."""
    events = into.counters.setdefault("headgate_events_total", {})
    for (outcome, reason), count in series.ended.items():
        events[(*pair, str(outcome), str(reason))] = count
    for name, value in (
        ("headgate_suppressed_bytes_total", series.suppressed_bytes),
        ("headgate_keyless_total", series.keyless),
        ("headgate_producer_limited_total", series.limited),
        ("headgate_coalesced_total", series.ended.get((OutcomeName.SUPERSEDED, ""), 0)),
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
