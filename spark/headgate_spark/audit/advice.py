"""Advice: each option scored with its floor and its cost, or a statement that none helps."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from headgate_spark.audit.diagnosis import (
    HOT,
    LARGE_BYTES,
    MISPLACED,
    NAMED_PRODUCERS,
    Diagnosis,
    Finding,
    Waste,
    cause,
    earlier_count,
    is_hot,
    misplaced_by,
    named,
    wasteful,
)
from headgate_spark.audit.figures import KeyFigures, Misplaced, Prediction, Sizes, TopicFigures
from headgate_spark.audit.measures import (
    floor_of,
    lower_bound,
    max_over_mean,
    max_useful_partitions,
    usefulness,
)
from headgate_spark.audit.predictions import lessened, pinned, salted, weight

PINNED_KEYS = 50  # a list that people can keep
NOTABLE = 0.9  # a fix that leaves more than this of max/mean is not worth its cost

FETCH_MAX_BYTES = 52_428_800  # Kafka's defaults: what a whole answer and one partition may hold
MAX_PARTITION_FETCH_BYTES = 1_048_576


class Recommendation(NamedTuple):
    """One action.

    Attributes:
        expected: Figures after the action.
        cost: The effort and the side effects.
    """

    action: str
    expected: Mapping[str, float]
    cost: str
    why: str
    key: KeyFigures | None = None


class Fetch(NamedTuple):
    """The bytes that consumers of the topic need, and the effect of Kafka's defaults."""

    max_partition_fetch_bytes: int
    fetch_max_bytes: int
    records_per_fetch: int
    why: str


def recommend(figures: TopicFigures, findings: list[Finding]) -> list[Recommendation]:
    """Return the advice for the findings, the most helpful first."""
    names = {finding.diagnosis for finding in findings}
    chatty = [finding.key for finding in findings if finding.diagnosis is Diagnosis.CHATTY]
    advice = [_coalesce(figures, key) for key in chatty if key is not None and _can_coalesce(key)]
    advice += [
        _large(figures, finding) for finding in findings if finding.diagnosis is Diagnosis.LARGE
    ]
    if Diagnosis.FOREIGN_PARTITIONER in names:
        advice += _partitioner(figures)
    if is_hot(figures) and names & {Diagnosis.POPULAR, Diagnosis.CLUMPED, Diagnosis.CHATTY}:
        advice += _placements(figures, names)
        advice += [] if figures.is_part else [_partitions(figures)]
    if Diagnosis.BURSTY in names:
        advice.append(_smooth())
    return advice + [_send_less(waste) for waste in wasteful(figures)]


def _send_less(waste: Waste) -> Recommendation:
    expected = {
        "events": float(waste.producer.in_vain),
        "bytes": float(waste.bytes),
        "share": waste.share,
    }
    cost = "none to consumers; its own requests, and the gateway's work for them, go"
    return Recommendation("send-changes-only", expected, cost, waste.why)


def _can_coalesce(key: KeyFigures) -> bool:
    """Return false if the events are too far apart, or are coalesced already."""
    return key.kept <= NOTABLE * key.records


def _coalesce(figures: TopicFigures, key: KeyFigures) -> Recommendation:
    share = key.kept / key.records
    expected = {"records": float(key.kept), "removed_share": 1 - share}
    present = figures.prediction(figures.partitions)
    if present is not None:
        records, sizes = lessened(present, key, key.kept, key.bytes * share)
        expected["max_over_mean_records"] = max_over_mean(records)
        expected["max_over_mean_bytes"] = max_over_mean(sizes)
    why = (
        f"key {named(key.key)} is republished in runs of {key.run_p95}: coalescing would have "
        f"left {key.kept} of its {key.records} records"
    )
    cost = "its events are answered `held` and published up to coalesce_max_delay_ms later"
    return Recommendation("coalesce", expected, cost, why, key)


def _large(figures: TopicFigures, finding: Finding) -> Recommendation:
    by_records = figures.by_records().max_over_mean
    key = finding.key
    if key is None:
        expected = {"max_over_mean_bytes": by_records}
    else:
        # A reference of some hundred bytes is left of each value.
        remaining = min(key.bytes, 500 * key.records)
        expected = {"bytes": float(figures.bytes - key.bytes + remaining)}
    cost = "consumers fetch the value by its reference, or put its parts together"
    return Recommendation("claim-check", expected, cost, finding.text, key)


def _partitioner(figures: TopicFigures) -> list[Recommendation]:
    """Advise on records of an earlier partition count, and on the producers of the others."""
    advice = []
    earlier = [misplaced for misplaced in figures.misplaced if earlier_count(misplaced) is not None]
    others = [
        misplaced
        for misplaced in figures.misplaced
        if misplaced not in earlier and _is_notable(misplaced, figures)
    ]
    if earlier:
        share = sum(misplaced.records for misplaced in earlier) / max(1, figures.keyed_records)
        whys = "; ".join(
            f"{misplaced_by(misplaced)}: {cause(misplaced)}"
            for misplaced in earlier[:NAMED_PRODUCERS]
        )
        why = f"{whys}: order of a key holds within each era only"
        cost = "none to new records; consumers must not rely on order across the change"
        advice.append(Recommendation("wait-for-retention", {"foreign_share": share}, cost, why))
    if others:
        why = "; ".join(
            f"{misplaced_by(misplaced)}: {cause(misplaced)}"
            for misplaced in others[:NAMED_PRODUCERS]
        )
        cost = "that client's configuration; its keys move once, and their order breaks there"
        advice.append(Recommendation("set-partitioner", {"foreign_share": 0.0}, cost, why))
    return advice


def _is_notable(misplaced: Misplaced, figures: TopicFigures) -> bool:
    """Return whether a producer has more misplaced records than the few that it cannot avoid."""
    is_largest = misplaced.records == max(each.records for each in figures.misplaced)
    return is_largest or lower_bound(misplaced.records, misplaced.keyed) >= MISPLACED


def _placements(figures: TopicFigures, names: set[Diagnosis]) -> list[Recommendation]:
    """Return pins and salts, each only if it helps notably."""
    present = figures.prediction(figures.partitions)
    if present is None or figures.partitions < 2:
        return []
    by_bytes = max_over_mean(present.bytes) > max_over_mean(present.records)
    advice = [_pin(figures, present, by_bytes=by_bytes)]
    if Diagnosis.POPULAR in names:
        advice.append(_salt(figures, present, by_bytes=by_bytes))
    return [recommendation for recommendation in advice if recommendation is not None]


def _pin(figures: TopicFigures, present: Prediction, *, by_bytes: bool) -> Recommendation | None:
    keys = _heaviest(figures, by_bytes=by_bytes)[:PINNED_KEYS]
    fix = pinned(present, keys, by_bytes=by_bytes)
    before = max_over_mean(present.bytes if by_bytes else present.records)
    after = fix.max_over_mean_bytes if by_bytes else fix.max_over_mean_records
    if after > NOTABLE * before:
        return None
    floor = floor_of(figures.partitions, _p_max(figures, by_bytes=by_bytes))
    why = f"the {len(keys)} heaviest keys, each on the emptiest partition: {before:.2f} -> "
    why += f"{after:.2f}, and no placement gets below {floor:.2f}"
    cost = "an explicit partition for each of these keys in every producer; per-key order stays, "
    cost += "joins with topics of the same keys break"
    return Recommendation("pin", {**fix._asdict(), "floor": floor}, cost, why)


def _salt(figures: TopicFigures, present: Prediction, *, by_bytes: bool) -> Recommendation | None:
    n, total = figures.partitions, figures.bytes if by_bytes else figures.records
    shares = [(key, weight(key, by_bytes=by_bytes) / total) for key in figures.top_keys]
    hot = [(key, share) for key, share in shares if 2 * n * share > 1]
    if not hot:
        return None
    salts = [max(2, math.ceil(2 * n * share)) for _, share in hot]
    fix = salted(present, [key for key, _ in hot], salts)
    before = max_over_mean(present.bytes if by_bytes else present.records)
    after = fix.max_over_mean_bytes if by_bytes else fix.max_over_mean_records
    if after > NOTABLE * before:
        return None
    why = f"{len(hot)} keys above 1/{2 * n} as {sum(salts)} keys: {before:.2f} -> {after:.2f}"
    cost = "per-key order and compaction break for these keys; consumers must merge their parts"
    return Recommendation("salt", {**fix._asdict(), "salts": float(sum(salts))}, cost, why)


def _partitions(figures: TopicFigures) -> Recommendation:
    """Return another partition count if it is notably better, or a statement that none is."""
    by_bytes = max_over_mean(figures.load_bytes) > max_over_mean(figures.load_records)
    scores = {
        prediction.partitions: max_over_mean(prediction.bytes if by_bytes else prediction.records)
        for prediction in figures.predictions
        if prediction.partitions >= figures.partitions
    }
    present = scores.get(figures.partitions, 1.0)
    # Of the counts that are nearly as good as the best, the one that changes least.
    best = min(scores.values(), default=1.0)
    count = next((n for n, score in scores.items() if score <= 1.05 * best), figures.partitions)
    useful = max_useful_partitions(_p_max(figures, by_bytes=by_bytes))
    helps = scores.get(count, present) <= NOTABLE * present
    if helps and count > figures.partitions and (useful is None or count <= useful):
        return _other_count(figures, count, present, scores[count])
    return _no_count(figures, useful, scores, by_bytes=by_bytes)


def _other_count(figures: TopicFigures, count: int, before: float, after: float) -> Recommendation:
    prediction = figures.prediction(count)
    moved = prediction.moved_keys / max(1, figures.distinct_keys) if prediction else 0.0
    why = f"on {count} partitions these keys do not meet: max/mean {before:.2f} -> {after:.2f}"
    cost = f"{moved:.0%} of the keys move, and their order breaks at the change"
    return Recommendation(
        "partitions", {"partitions": float(count), "max_over_mean": after}, cost, why
    )


def _no_count(
    figures: TopicFigures, useful: int | None, scores: Mapping[int, float], *, by_bytes: bool
) -> Recommendation:
    highest = max(scores, default=figures.partitions)
    what = "bytes" if by_bytes else "records"
    expected = {
        "partitions": float(highest),
        "max_over_mean": scores.get(highest, 1.0),
        "floor": floor_of(highest, _p_max(figures, by_bytes=by_bytes)),
    }
    if useful is not None:
        expected["max_useful_partitions"] = float(useful)
    limit = usefulness(_p_max(figures, by_bytes=by_bytes), what)
    why = f"more partitions do not help: {limit}; max/mean by {what} "
    why += ", ".join(f"{n} -> {score:.2f}" for n, score in scores.items())
    return Recommendation("keep-partitions", expected, "none", why)


def _smooth() -> Recommendation:
    cost = "later delivery within the burst"
    why = "the skew is in short windows only: partitions are even without them"
    return Recommendation("spread-burst", {"max_over_mean": HOT}, cost, why)


def _heaviest(figures: TopicFigures, *, by_bytes: bool) -> list[KeyFigures]:
    return sorted(
        figures.top_keys, key=lambda top_key: weight(top_key, by_bytes=by_bytes), reverse=True
    )


def _p_max(figures: TopicFigures, *, by_bytes: bool) -> float:
    return figures.top_byte_share if by_bytes else figures.top_record_share


def fetch_advice(sizes: Sizes) -> Fetch:
    """Return fetch sizes with which a response for one partition has several records.

    A record larger than `max.partition.fetch.bytes` is still returned, alone. Consumers then read
    one record per response, and a blocking round robin waits for each idle partition.
    """
    fits = max(1, MAX_PARTITION_FETCH_BYTES // max(1, sizes.p99))
    wanted = max(MAX_PARTITION_FETCH_BYTES, 10 * sizes.p99 if sizes.p99 > LARGE_BYTES else 0)
    wanted = max(wanted, sizes.max)
    why = f"with the default of 1 MiB a partition, {fits} records of {sizes.p99:,} bytes (p99) fit"
    if fits < 10:
        why += "; a consumer that polls one partition after the other waits fetch.max.wait.ms at "
        why += "each idle one between them: raise the size, and poll all partitions at once"
    return Fetch(wanted, max(FETCH_MAX_BYTES, wanted), fits, why)
