"""Diagnosis of unequal partitions: pure rules over a topic's figures."""

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from headgate_spark.audit.figures import (
    BUSY_SHARE,
    FITS,
    KeyFigures,
    Misplaced,
    ProducerFigures,
    TopicFigures,
    Unpublished,
    UnpublishedKey,
)
from headgate_spark.audit.measures import (
    Load,
    is_above,
    is_uneven,
    lower_bound,
    max_over_mean,
    usefulness,
)

# Max/mean of a hot topic: its slowest consumer takes half as long again as the mean.
HOT = 1.5
# A topic with fewer records gets figures and no diagnosis.
ENOUGH_RECORDS = 100
# A run of ten copies is what coalescing or suppression was made for.
LONG_RUN = 10
# Times the mean run that chance gives a key with this share of its partition.
BEYOND_CHANCE = 3.0
# With nearly nothing else in its partition, the order cannot distinguish runs from chance.
ALONE = 0.97
# Times the max/mean that the top key and its fair share of the rest explain.
CLUMP = 1.25
# `max.partition.fetch.bytes` is 1 MiB: fewer than ten such records fit into one answer.
LARGE_BYTES = 100_000
OUTSIZED = 4.0  # times the share of records
WEIGHTY = 0.25  # of all bytes: below it large values do not matter
# Share of the keyed records, with confidence: 3 of 1,504 may be 1 of a thousand by chance.
MISPLACED = 0.001
# A key fits a partition count of c by chance with probability 1/c; ten keys rule chance out.
ENOUGH_KEYS = 10
NAMED_PRODUCERS = 3  # in a sentence
EMPTY_KEY = "(the empty key)"
BURST_WINDOWS = 6  # half an hour: a shorter one has no usual rate
BURST = 5.0  # times the mean window


class Diagnosis(StrEnum):
    """The names in `diagnoses` of audit.json. Other tools read them, so they never change."""

    CHATTY = "chatty"
    POPULAR = "popular"
    CLUMPED = "clumped"
    LARGE = "large"
    BURSTY = "bursty"
    FOREIGN_PARTITIONER = "foreign_partitioner"


class Finding(NamedTuple):
    """One diagnosis with its evidence. `key` is the key that causes it, if any."""

    diagnosis: Diagnosis
    text: str
    key: KeyFigures | None = None


def diagnose(figures: TopicFigures) -> list[Finding]:
    """Return all findings of a topic; none if its partitions are even."""
    if figures.records < ENOUGH_RECORDS:
        return []
    chatty = [key for key in hot_keys(figures) if is_chatty(figures, key)]
    findings = [_chatty(figures, key) for key in chatty]
    bursts = _bursts(figures)
    if bursts is None:
        findings += _popular(figures, chatty) + _clumped(figures)
    findings += _large(figures)
    findings += [bursts] if bursts else []
    return findings + _misplaced(figures)


def is_hot(figures: TopicFigures) -> bool:
    """Return whether a partition has far more than the mean, and not by chance alone."""
    loads = (figures.load_records, figures.load_bytes)
    return any(max_over_mean(load) >= HOT and is_uneven(load, figures.records) for load in loads)


def hot_keys(figures: TopicFigures) -> list[KeyFigures]:
    """Return keys that fill half a partition's fair share or more, the heaviest first."""
    minimum = 0.25 if figures.partitions == 1 else 0.5 / figures.partitions
    if not is_hot(figures) and figures.partitions > 1:
        return []
    heat = {
        key: max(figures.record_share(key), figures.byte_share(key)) for key in figures.top_keys
    }
    return sorted((key for key in heat if heat[key] >= minimum), key=lambda key: -heat[key])


def is_chatty(figures: TopicFigures, key: KeyFigures) -> bool:
    """Return whether the key comes in runs that are longer than by chance.

    A key with share q of its partition that arrives independently has runs of 1 / (1 - q).
    """
    if key.run_p95 < LONG_RUN or key.run_share < 0.5:
        return False
    share = min(
        1.0, key.records / max(1.0, float(figures.load_records[figures.row_of(key.partition)]))
    )
    return share >= ALONE or key.mean_run * (1 - share) >= BEYOND_CHANCE


def _chatty(figures: TopicFigures, key: KeyFigures) -> Finding:
    share, what = max((figures.record_share(key), "records"), (figures.byte_share(key), "bytes"))
    gone = 1 - key.kept / key.records
    text = (
        f"key {named(key.key)} is {share:.1%} of the {what}, in runs of {key.run_p95} (95th "
        f"percentile), written by {key.producer or 'a producer without hg-producer'}; coalescing "
        f"would have removed {gone:.0%} of its records"
    )
    return Finding(Diagnosis.CHATTY, text, key)


def _popular(figures: TopicFigures, chatty: list[KeyFigures]) -> list[Finding]:
    n = figures.partitions
    findings = list[Finding]()
    if figures.is_part:  # the other partitions have other keys: a key's share is not known
        return findings
    for key in hot_keys(figures):
        share = figures.record_share(key)
        is_larger = is_above(share, figures.records, 1 / n, figures.distinct_keys)
        if n > 1 and is_larger and key not in chatty:
            text = (
                f"key {named(key.key)} is {share:.1%} of the records, more than the 1/{n} of a "
                f"partition; {usefulness(figures.top_record_share, 'records')}"
            )
            findings.append(Finding(Diagnosis.POPULAR, text, key))
    return findings


def _clumped(figures: TopicFigures) -> list[Finding]:
    prediction = figures.prediction(figures.partitions)
    if prediction is None:
        return []
    pairs = (
        (prediction.records, figures.top_record_share, "records"),
        (prediction.bytes, figures.top_byte_share, "bytes"),
    )
    for load, p_max, what in pairs:
        measured, alone = max_over_mean(load), 1 + (figures.partitions - 1) * p_max
        if (
            measured >= HOT
            and measured >= CLUMP * alone
            and is_uneven(load, figures.records, above=alone)
        ):
            text = (
                f"the hash puts several heavy keys on partition {int(load.argmax())}: max/mean "
                f"{measured:.2f} by {what}, where the top key alone explains {alone:.2f}"
            )
            return [Finding(Diagnosis.CLUMPED, text)]
    return []


def _large(figures: TopicFigures) -> list[Finding]:
    keys = [key for key in hot_keys(figures) if _is_large_key(figures, key)]
    if keys:
        key = max(keys, key=lambda candidate: candidate.bytes)
        mean = key.bytes // key.records
        text = (
            f"records of key {named(key.key)} have {mean:,} bytes on average and are "
            f"{figures.byte_share(key):.0%} of the bytes, {figures.record_share(key):.1%} of the "
            f"records"
        )
        return [Finding(Diagnosis.LARGE, text, key)]
    for producer in figures.producers:
        if _outsized(figures, producer.records, producer.bytes):
            text = (
                f"producer {producer.producer or '(no hg-producer)'} writes "
                f"{producer.bytes / figures.bytes:.0%} of the bytes in "
                f"{producer.records / figures.records:.1%} of the records"
            )
            return [Finding(Diagnosis.LARGE, text)]
    return _large_partition(figures)


def _is_large_key(figures: TopicFigures, key: KeyFigures) -> bool:
    heavy = figures.byte_share(key) >= WEIGHTY and key.bytes >= LARGE_BYTES * key.records
    return heavy or _outsized(figures, key.records, key.bytes)


def _outsized(figures: TopicFigures, records: int, sizes: int) -> bool:
    if not figures.bytes or not records:
        return False
    byte_share, record_share = sizes / figures.bytes, records / figures.records
    return byte_share >= WEIGHTY and byte_share >= OUTSIZED * record_share


def _large_partition(figures: TopicFigures) -> list[Finding]:
    by_bytes, by_records = max_over_mean(figures.load_bytes), max_over_mean(figures.load_records)
    if by_bytes < HOT or by_bytes < HOT * by_records:
        return []
    if not is_uneven(figures.load_bytes, figures.records):
        return []
    text = f"max/mean is {by_bytes:.2f} by bytes, but {by_records:.2f} by records"
    return [Finding(Diagnosis.LARGE, text)]


def _bursts(figures: TopicFigures) -> Finding | None:
    busy = figures.busy
    if busy.windows < BURST_WINDOWS:
        return None
    loads = (
        (busy.busy_records, busy.records, figures.records, "records"),
        (busy.busy_bytes, busy.bytes, figures.bytes, "bytes"),
    )
    for windows, load, total, what in loads:
        hot = _hot_windows(windows, float(load.sum()) / busy.windows, total)
        outside = load - windows[:, hot].sum(axis=1)
        # a handful of records does not show that they are even
        outside_records = float(busy.records.sum() - busy.busy_records[:, hot].sum())
        is_known = outside_records >= ENOUGH_RECORDS
        is_short = hot.any() and hot.sum() <= 0.25 * busy.windows
        if is_short and is_known and max_over_mean(outside) < HOT:
            share = windows[:, hot].sum() / total
            text = (
                f"{int(hot.sum())} of {busy.windows} windows of 5 minutes hold {share:.0%} of "
                f"the {what}; outside of them max/mean is {max_over_mean(outside):.2f}"
            )
            return Finding(Diagnosis.BURSTY, text)
    return None


def _hot_windows(
    busy: Load, mean: float, total: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return windows with far more than the mean window, or far more on one partition than even.

    Args:
        busy: The windows with `BUSY_SHARE` of the load, by partition; no other window can be
            hot.
        mean: The load of the mean window.
        total: The load of the topic. The windows may lack most of it, because they end with the
            newest timestamp and begin 30 days before it.
    """
    loads = busy.sum(axis=0)
    if total <= 0 or not busy.size:
        return np.zeros(loads.shape, dtype=bool)
    rate = (loads >= BURST * mean) & (loads >= BUSY_SHARE * total)
    excess = busy.max(axis=0) - busy.mean(axis=0)
    skew = (busy.max(axis=0) >= 2 * busy.mean(axis=0)) & (excess >= BUSY_SHARE * total)
    return np.asarray(rate | skew)


def _misplaced(figures: TopicFigures) -> list[Finding]:
    records, keyed = figures.misplaced_records, figures.keyed_records
    if lower_bound(records, keyed) < MISPLACED:
        return []
    text = f"{records:,} records ({records / keyed:.1%}) do not lie where Kafka's murmur2 rule "
    text += f"puts their keys: {cause_of(figures)}"
    return [Finding(Diagnosis.FOREIGN_PARTITIONER, text)]


def cause_of(figures: TopicFigures) -> str:
    """Return the writers of the misplaced records and the cause, as far as the records show it."""
    named_ones = figures.misplaced[:NAMED_PRODUCERS]
    parts = [f"{misplaced_by(misplaced)}: {cause(misplaced)}" for misplaced in named_ones]
    others = figures.misplaced_records - sum(misplaced.records for misplaced in named_ones)
    if others:
        parts.append(f"{others:,} records are of other producers")
    return "; ".join(parts)


def misplaced_by(misplaced: Misplaced) -> str:
    """Return a text with a producer and the number of its misplaced records."""
    who = (
        f"producer {misplaced.producer}" if misplaced.producer else "a producer without hg-producer"
    )
    return f"{who} ({misplaced.records:,} of its {misplaced.keyed:,})"


def cause(misplaced: Misplaced) -> str:
    """Return the cause of a producer's misplaced records, as far as their partitions show it."""
    count = earlier_count(misplaced)
    if count is not None:
        return f"they were written when the topic had {count} partitions"
    if misplaced.empty == misplaced.records:
        return (
            "all have the empty key, which librdkafka's default partitioner (CRC32) spreads at "
            "random; set murmur2_random"
        )
    if misplaced.crc32 + misplaced.empty >= FITS * misplaced.records:
        spread = ", which spreads empty keys at random" if misplaced.empty else ""
        return f"a client with librdkafka's default partitioner (CRC32{spread}); set murmur2_random"
    text = "a client with a partitioner of its own, or that names partitions"
    few = ", or an earlier partition count: these are too few keys to decide"
    return text + few if misplaced.keys < ENOUGH_KEYS else text


def earlier_count(misplaced: Misplaced) -> int | None:
    """Return the earlier partition count that explains a producer's misplaced records.

    None if there is no such count, or too few keys for a conclusion.
    """
    if misplaced.keys < ENOUGH_KEYS:
        return None
    fitting = [
        count for count, fits in misplaced.earlier.items() if fits >= FITS * misplaced.records
    ]
    return max(fitting) if fitting and misplaced.records else None


def earlier_partitions(figures: TopicFigures) -> int | None:
    """Return the earlier partition count that explains the misplaced records of all producers.

    None if there is no such count.
    """
    counts = {earlier_count(misplaced) for misplaced in figures.misplaced}
    return counts.pop() if len(counts) == 1 else None


def named(key: bytes) -> str:
    """Return a key for a sentence; an empty key is described."""
    return shown(key) or EMPTY_KEY


def shown(key: bytes) -> str:
    r"""Return a key as text for people and JSON; bytes that are not UTF-8 become \x escapes."""
    return key.decode("utf-8", "backslashreplace")


# ---- notes about uneven records without a key: no key is to blame, so there is no diagnosis


_MIN_SHARE = 0.5  # of the records: below it keys decide how even a topic is
# Share of the windows: no partition is the fullest of so many by chance.
_LASTING = 0.75


def notes(figures: TopicFigures) -> list[str]:
    """Return additional sentences; the names of diagnoses are fixed."""
    keyless = figures.keyless
    if keyless is None or figures.keyless_records < max(
        ENOUGH_RECORDS, _MIN_SHARE * figures.records
    ):
        return []
    uneven = max_over_mean(keyless.records)
    if uneven < HOT or not is_uneven(keyless.records, figures.keyless_records):
        return []
    row = int(keyless.records.argmax())
    fullest = figures.numbers[row] if figures.is_part else row
    text = (
        f"the {figures.keyless_records:,} records without a key are uneven, and no key is the "
        f"reason: partition {fullest} has {uneven:.2f} times the mean of them"
    )
    if keyless.windows >= BURST_WINDOWS and keyless.same >= _LASTING * keyless.windows:
        why = (
            f"it is the fullest in {keyless.same} of {keyless.windows} windows of 5 minutes: a "
            "producer that names partitions, or has a partitioner of its own, puts them there"
        )
    else:
        why = (
            "all events of a request without keys go to one partition, so that few requests, or "
            "few large ones, are uneven; a producer that names partitions would be, too"
        )
    return [f"{text}; {why}"]


# ---- producers: their records in Kafka beside the events that Kafka never saw


WASTEFUL = 0.5  # of its events: more were sent in vain than not
FEW_EVENTS = 100  # below it nothing is judged, as with records
# Events before scaling: with sampled facts, one event alone may count for a hundred.
FEW_SEEN = 10


def with_unpublished(figures: TopicFigures, unpublished: Unpublished) -> TopicFigures:
    """Add the gateways' facts of the same window to the figures."""
    by_name = {producer.producer: producer for producer in figures.producers}
    producers = [_with_sent(producer, unpublished) for producer in figures.producers]
    silent = [name for name in unpublished.producers if name not in by_name]  # not in Kafka
    if figures.distinct_producers > len(by_name):
        silent = []  # they may be in Kafka, among the producers with fewer bytes
    producers += [_with_sent(ProducerFigures(name, 0, 0), unpublished) for name in silent]
    return replace(figures, producers=tuple(producers), unpublished=unpublished)


def _with_sent(producer: ProducerFigures, unpublished: Unpublished) -> ProducerFigures:
    outcomes = unpublished.of(producer.producer)
    if outcomes is None:
        return producer
    return ProducerFigures(producer.producer, producer.records, producer.bytes, **outcomes)


def sent(producer: ProducerFigures) -> int | None:
    """Return the number of events that a producer sent, or None if it is unknown."""
    if producer.unchanged is None:
        return None
    return producer.records + producer.in_vain


class Waste:
    """A producer most of whose events were not published, and its most frequent unpublished key."""

    def __init__(self, producer: ProducerFigures, key: UnpublishedKey | None, size: int) -> None:
        self.producer, self.key, self.bytes = producer, key, size

    @property
    def share(self) -> float:
        """Return the share of the producer's events that were not published."""
        return self.producer.in_vain / (sent(self.producer) or 1)

    @property
    def why(self) -> str:
        """Return one sentence with the figures."""
        producer = self.producer
        counts = ", ".join(
            f"{count:,} {name}"
            for name, count in (
                ("unchanged", producer.unchanged),
                ("superseded", producer.superseded),
                ("rejected", producer.rejected),
                ("duplicate", producer.duplicate),
            )
            if count
        )
        text = (
            f"producer {producer.producer or '(no hg-producer)'} sent {sent(producer):,} events, "
            f"of which Kafka got {producer.records:,} records; {counts} ended before it, "
            f"{self.bytes:,} bytes"
        )
        if self.key is not None and self.key.key is not None:
            key = named(self.key.key)[:120]
            text += f"; most of it key {key} ({self.key.events:,} {self.key.outcome})"
        return text


def wasteful(figures: TopicFigures) -> Iterator[Waste]:
    """Return producers that should send less, those with the most unpublished bytes first."""
    sizes: dict[str, int] = {}
    seen: dict[str, int] = {}
    for row in figures.unpublished.rows:
        sizes[row.producer] = sizes.get(row.producer, 0) + row.bytes
        seen[row.producer] = seen.get(row.producer, 0) + (row.seen or row.events)
    for producer in sorted(
        figures.producers, key=lambda producer: -sizes.get(producer.producer, 0)
    ):
        if seen.get(producer.producer, 0) < FEW_SEEN:
            continue
        if producer.in_vain >= FEW_EVENTS and producer.in_vain >= WASTEFUL * (sent(producer) or 0):
            keys = (key for key in figures.unpublished.keys if key.producer == producer.producer)
            yield Waste(producer, next(keys, None), sizes.get(producer.producer, 0))
