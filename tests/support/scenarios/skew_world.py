"""Generated topics whose truth is known, and their figures counted by other means than the job's.

Keys are placed with aiokafka's murmur2, not with ours, and counted with dictionaries.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np
from aiokafka.partitioner import murmur2
from numpy.typing import NDArray

from headgate_spark.audit.figures import (
    BUCKET_MS,
    BusyWindows,
    HeatMap,
    KeyFigures,
    Misplaced,
    Prediction,
    ProducerFigures,
    Sizes,
    TopicFigures,
)

START_MS = 1_750_000_200_000  # a multiple of 5 minutes
HOUR_MS = 3_600_000


@cache
def place(key: bytes, partitions: int) -> int:
    """Kafka's partition of a key, by aiokafka."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


def crc32_place(key: bytes, partitions: int) -> int:
    """librdkafka's default partition of a key."""
    return zlib.crc32(key) % partitions


@dataclass(eq=False)
class Dataset:
    """A topic's records in order of time; their order in a partition is the same."""

    topic: str
    partitions: int
    keys: list[bytes]
    partition: NDArray[np.int64]
    sizes: NDArray[np.int64]
    times_ms: NDArray[np.int64]
    producers: list[str]

    def __len__(self) -> int:
        return len(self.keys)

    def offsets(self) -> NDArray[np.int64]:
        """The offset of each record."""
        found = np.zeros(len(self), dtype=np.int64)
        for number in range(self.partitions):
            mine = self.partition == number
            found[mine] = np.arange(mine.sum())
        return found


def made(
    topic: str,
    partitions: int,
    keys: list[bytes],
    sizes: NDArray[np.int64] | int,
    times_ms: NDArray[np.int64] | None = None,
    producers: list[str] | None = None,
) -> Dataset:
    """Records placed by Kafka's rule, evenly over an hour unless times are given."""
    count = len(keys)
    known = {key: place(key, partitions) for key in set(keys)}
    return Dataset(
        topic,
        partitions,
        keys,
        np.array([known[key] for key in keys]),
        np.full(count, sizes) if isinstance(sizes, int) else sizes,
        START_MS + np.arange(count) * HOUR_MS // count if times_ms is None else times_ms,
        producers or ["web"] * count,
    )


def names(count: int) -> list[bytes]:
    return [b"key-%06d" % number for number in range(count)]


@cache
def uniform(count: int = 30_000, partitions: int = 12) -> Dataset:
    """Many keys, each as frequent as the others: nothing to find."""
    source = np.random.default_rng(1)
    every = names(count // 3)
    keys = [every[one] for one in source.integers(0, len(every), count)]
    return made("uniform", partitions, keys, source.integers(80, 400, count))


@cache
def zipf(count: int = 30_000, partitions: int = 12) -> Dataset:
    """20,000 keys by Zipf's law with exponent 1.05: the first has 12 %."""
    source = np.random.default_rng(2)
    weights = 1 / np.arange(1, 20_001) ** 1.05
    every = names(20_000)
    drawn = source.choice(20_000, size=count, p=weights / weights.sum())
    return made("zipf", partitions, [every[one] for one in drawn], 200)


@cache
def data_bomb(partitions: int = 12) -> Dataset:
    """Incident A: one deal saved 1,013 times in runs of 200 to 300, 800 kB each."""
    source = np.random.default_rng(3)
    every = names(3000)
    keys: list[bytes] = []
    for run in (253, 240, 270, 250):
        keys += [every[one] for one in source.integers(0, len(every), 2000)]
        keys += [b"2342565"] * run
    sizes = np.array([800_000 if key == b"2342565" else 300 for key in keys])
    who = ["deal-admin" if key == b"2342565" else "web" for key in keys]
    return made("data-bomb", partitions, keys, sizes, producers=who)


@cache
def clumped(partitions: int = 12) -> Dataset:
    """Two keys of 7 % each that share a partition of 12, but not one of 13."""
    pair = next(
        (one, other)
        for one in names(200)
        for other in names(200)
        if one < other and place(one, 12) == place(other, 12) and place(one, 13) != place(other, 13)
    )
    source = np.random.default_rng(4)
    every = [b"other-%06d" % number for number in range(8000)]
    drawn = source.random(30_000)
    rest = source.integers(0, len(every), 30_000)
    keys = [
        pair[0] if x < 0.07 else pair[1] if x < 0.14 else every[y]
        for x, y in zip(drawn, rest, strict=True)
    ]
    return made("clumped", partitions, keys, 200)


@cache
def large_values(partitions: int = 12) -> Dataset:
    """One producer of two writes 2 % of the records, and most of the bytes."""
    plain = uniform(20_000, partitions)
    who = ["archive" if number % 50 == 0 else "web" for number in range(len(plain))]
    sizes = np.array([60_000 if one == "archive" else 200 for one in who])
    return Dataset(
        "large-values", partitions, plain.keys, plain.partition, sizes, plain.times_ms, who
    )


@cache
def burst(partitions: int = 12) -> Dataset:
    """Even for two hours, but for 5 minutes in which the keys of one partition come very often."""
    source = np.random.default_rng(5)
    calm = uniform(24_000, partitions)
    count, at = 4000, START_MS + 13 * BUCKET_MS
    few = [key for key in names(2000) if place(key, partitions) == 3][:6]
    keys = calm.keys + [few[one] for one in source.integers(0, len(few), count)]
    times = np.concatenate(
        [START_MS + np.arange(24_000) * 2 * HOUR_MS // 24_000, at + np.arange(count) * 50]
    )
    order = np.argsort(times, kind="stable")
    return made("burst", partitions, [keys[one] for one in order], 200, times[order])


@cache
def foreign(partitions: int = 12) -> Dataset:
    """A third of the records by a client with librdkafka's default partitioner."""
    plain = uniform(20_000, partitions)
    who = ["legacy" if number % 3 == 0 else "web" for number in range(len(plain))]
    placed = [
        crc32_place(key, partitions) if one == "legacy" else int(at)
        for key, one, at in zip(plain.keys, who, plain.partition, strict=True)
    ]
    return Dataset(
        "foreign", partitions, plain.keys, np.array(placed), plain.sizes, plain.times_ms, who
    )


@cache
def empty_keys(partitions: int = 12) -> Dataset:
    """`foreign`, whose client has an empty key in every tenth record: librdkafka spreads those."""
    plain, source = uniform(20_000, partitions), np.random.default_rng(6)
    who = ["legacy" if number % 3 == 0 else "web" for number in range(len(plain))]
    keys = [b"" if number % 30 == 0 else key for number, key in enumerate(plain.keys)]
    anywhere = source.integers(0, partitions, len(plain))
    placed = [
        place(key, partitions)
        if one == "web"
        else crc32_place(key, partitions)
        if key
        else int(chance)
        for key, one, chance in zip(keys, who, anywhere, strict=True)
    ]
    return Dataset(
        "empty-keys", partitions, keys, np.array(placed), plain.sizes, plain.times_ms, who
    )


@cache
def changed_count(partitions: int = 12, before: int = 8) -> Dataset:
    """The first quarter was written when the topic had 8 partitions."""
    plain = uniform(20_000, partitions)
    placed = [
        place(key, before) if number < 5000 else int(at)
        for number, (key, at) in enumerate(zip(plain.keys, plain.partition, strict=True))
    ]
    return Dataset(
        "changed-count", partitions, plain.keys, np.array(placed), plain.sizes, plain.times_ms,
        plain.producers,
    )  # fmt: skip


def load(dataset: Dataset, weights: NDArray[np.int64]) -> NDArray[np.float64]:
    """What lies on each partition."""
    found = np.zeros(dataset.partitions)
    np.add.at(found, dataset.partition, weights)
    return found


def heat(dataset: Dataset, weights: NDArray[np.int64]) -> NDArray[np.float64]:
    """What lies on each partition in each window of 5 minutes."""
    windows = (dataset.times_ms - START_MS) // BUCKET_MS
    found = np.zeros((dataset.partitions, int(windows.max()) + 1))
    np.add.at(found, (dataset.partition, windows), weights)
    return found


def busy_of(
    records: NDArray[np.float64], sizes: NDArray[np.float64], all_records: float, all_bytes: float
) -> BusyWindows:
    """What is kept of two heats: the columns with a twentieth of all, and the sums of the rest."""
    is_busy = [
        records[:, one].sum() >= 0.05 * all_records or sizes[:, one].sum() >= 0.05 * all_bytes
        for one in range(records.shape[1])
    ]
    return BusyWindows(
        records.shape[1], records.sum(axis=1), sizes.sum(axis=1), records[:, is_busy],
        sizes[:, is_busy],
    )  # fmt: skip


def heat_of(sizes: NDArray[np.float64]) -> HeatMap:
    """The heat as it is shown: as many windows put together as make at most 72 columns."""
    together = -(-sizes.shape[1] // 72)
    columns = [
        sizes[:, first : first + together].sum(axis=1)
        for first in range(0, sizes.shape[1], together)
    ]
    order = np.argsort(-sizes.sum(axis=1), kind="stable")[:48]
    rows = sorted(int(one) for one in order if sizes[one].sum())
    found = np.array(columns).T[rows]
    return HeatMap(tuple(rows), START_MS, together * BUCKET_MS, found)


def runs_of(dataset: Dataset) -> dict[bytes, list[int]]:
    """The lengths of the runs of each key."""
    found: dict[bytes, list[int]] = defaultdict(list)
    for number in range(dataset.partitions):
        mine = [dataset.keys[at] for at in np.flatnonzero(dataset.partition == number)]
        for key, run in groupby(mine):
            found[key].append(len(list(run)))
    return found


def kept(times_ms: NDArray[np.int64], quiet_s: int = 2, max_s: int = 10) -> int:
    """Records that coalescing leaves of one key, replayed second by second."""
    count, begun, last = 0, None, None
    for second in sorted(set((times_ms // 1000).tolist())):
        if begun is None or second - last > quiet_s or second - begun >= max_s:
            count, begun = count + 1, second
        last = second
    return count


@cache
def figures_of(dataset: Dataset, counts: tuple[int, ...] = (3, 12, 13, 20, 24)) -> TopicFigures:
    """The figures of a data set, counted the plain way."""
    ones = np.ones(len(dataset), dtype=np.int64)
    records, sizes, writers = Counter[bytes](), Counter[bytes](), defaultdict(Counter)  # type: ignore[var-annotated]
    for key, size, who in zip(dataset.keys, dataset.sizes, dataset.producers, strict=True):
        records[key] += 1
        sizes[key] += int(size)
        writers[key][who] += 1
    heavy = {key for key, _ in records.most_common(50)} | {key for key, _ in sizes.most_common(50)}
    runs = runs_of(dataset)
    array = np.array(dataset.keys)
    top = []
    for key in sorted(heavy):
        at = array == key
        p95 = int(np.percentile(runs[key], 95, method="inverted_cdf"))
        where = _limit(Counter(dataset.partition[at].tolist()))
        who = _limit(writers[key])
        left = kept(dataset.times_ms[at])
        top.append(KeyFigures(key, records[key], sizes[key], who, len(runs[key]), p95, where, left))
    return TopicFigures(
        topic=dataset.topic,
        from_ms=START_MS,
        to_ms=START_MS + 3 * HOUR_MS,
        records=len(dataset),
        bytes=int(dataset.sizes.sum()),
        keyless_records=0,
        keyless_bytes=0,
        tombstones=0,
        distinct_keys=len(records),
        load_records=load(dataset, ones),
        load_bytes=load(dataset, dataset.sizes),
        busy=busy_of(
            heat(dataset, ones), heat(dataset, dataset.sizes), len(dataset), dataset.sizes.sum()
        ),
        heat=heat_of(heat(dataset, dataset.sizes)),
        sizes=Sizes(
            *(
                int(np.percentile(dataset.sizes, q, method="inverted_cdf"))
                for q in (50, 95, 99, 100)
            )
        ),
        top_keys=tuple(sorted(top, key=lambda one: (-one.records, one.key))),
        predictions=tuple(
            _prediction(records, sizes, n, dataset.partitions)
            for n in sorted({*counts, dataset.partitions})
        ),
        misplaced=_misplaced(dataset),
        producers=_producers(dataset),
        distinct_producers=len(set(dataset.producers)),
    )


def _limit(counts: Counter[Any]) -> Any:
    """The most frequent; of two that are as frequent the greater."""
    return max(counts, key=lambda one: (counts[one], one))


def _prediction(records: Counter[bytes], sizes: Counter[bytes], n: int, present: int) -> Prediction:
    loads = np.zeros(n), np.zeros(n)
    moved = 0
    for key in records:
        loads[0][place(key, n)] += records[key]
        loads[1][place(key, n)] += sizes[key]
        moved += place(key, n) != place(key, present)
    return Prediction(n, *loads, moved)


def _misplaced(dataset: Dataset) -> tuple[Misplaced, ...]:
    found = [_misplaced_of(dataset, who) for who in sorted(set(dataset.producers))]
    wrong = [one for one in found if one.records]
    return tuple(sorted(wrong, key=lambda one: (-one.records, one.producer)))


def _misplaced_of(dataset: Dataset, producer: str) -> Misplaced:
    n, wrong, crc32, empty, keyed, keys = dataset.partitions, 0, 0, 0, 0, set()
    earlier = dict.fromkeys(range(1, n), 0)
    for key, at, who in zip(dataset.keys, dataset.partition, dataset.producers, strict=True):
        if who != producer:
            continue
        keyed += 1
        if place(key, n) == at:
            continue
        wrong += 1
        keys.add((key, at))
        empty += not key
        crc32 += bool(key) and crc32_place(key, n) == at
        for count in earlier:
            earlier[count] += place(key, count) == at
    return Misplaced(producer, keyed, wrong, crc32, empty, len(keys), earlier)


def _producers(dataset: Dataset) -> tuple[ProducerFigures, ...]:
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for who, size in zip(dataset.producers, dataset.sizes, strict=True):
        found[who][0] += 1
        found[who][1] += int(size)
    every = [ProducerFigures(who, *counts) for who, counts in found.items()]
    return tuple(sorted(every, key=lambda one: -one.bytes))


def only(figures: TopicFigures, numbers: tuple[int, ...]) -> TopicFigures:
    """Figures of a topic as if no other partition had been read; keys elsewhere are left out."""
    rows, n = list(numbers), figures.partitions
    return replace(
        figures,
        records=int(figures.load_records[rows].sum()),
        bytes=int(figures.load_bytes[rows].sum()),
        load_records=figures.load_records[rows],
        load_bytes=figures.load_bytes[rows],
        busy=figures.busy._replace(
            records=figures.busy.records[rows],
            bytes=figures.busy.bytes[rows],
            busy_records=figures.busy.busy_records[rows],
            busy_bytes=figures.busy.busy_bytes[rows],
        ),
        heat=figures.heat._replace(numbers=numbers, bytes=figures.heat.bytes[rows]),
        top_keys=tuple(one for one in figures.top_keys if one.partition in numbers),
        predictions=(),
        numbers=numbers,
        topic_partitions=n,
    )
