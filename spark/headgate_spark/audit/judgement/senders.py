"""Who sent how much: what Kafka has of each producer beside what it never saw."""

from collections.abc import Iterator
from dataclasses import replace

from headgate_spark.audit.judgement.diagnosis import named
from headgate_spark.audit.judgement.figures import ProducerFigures, TopicFigures
from headgate_spark.audit.judgement.unpublished import Unpublished, UnpublishedKey

WASTEFUL = 0.5  # of its events: more were sent in vain than not
FEW_EVENTS = 100  # below it nothing is judged, as with records
# Of sampled facts, events that were seen: a single one in a hundred is scaled up to as many.
FEW_SEEN = 10


def with_unpublished(figures: TopicFigures, unpublished: Unpublished) -> TopicFigures:
    """The figures with what gateways told of the same window."""
    known = {producer.producer: producer for producer in figures.producers}
    producers = [_with_sent(producer, unpublished) for producer in figures.producers]
    silent = [name for name in unpublished.producers if name not in known]  # not in Kafka
    if figures.distinct_producers > len(known):
        silent = []  # they may be in Kafka, among the producers with fewer bytes
    producers += [_with_sent(ProducerFigures(name, 0, 0), unpublished) for name in silent]
    return replace(figures, producers=tuple(producers), unpublished=unpublished)


def _with_sent(one: ProducerFigures, unpublished: Unpublished) -> ProducerFigures:
    found = unpublished.of(one.producer)
    if found is None:
        return one
    return ProducerFigures(one.producer, one.records, one.bytes, **found)


def sent(one: ProducerFigures) -> int | None:
    """Events that a producer sent, as far as gateways know; None where nothing is known."""
    if one.unchanged is None:
        return None
    return one.records + one.in_vain


class Waste:
    """A producer most of whose events were not published, and the key it sent most in vain."""

    def __init__(self, producer: ProducerFigures, key: UnpublishedKey | None, size: int) -> None:
        self.producer, self.key, self.bytes = producer, key, size

    @property
    def share(self) -> float:
        """Of all that it sent."""
        return self.producer.in_vain / (sent(self.producer) or 1)

    @property
    def why(self) -> str:
        """One sentence with the figures."""
        one = self.producer
        counts = ", ".join(
            f"{count:,} {name}"
            for name, count in (
                ("unchanged", one.unchanged),
                ("superseded", one.superseded),
                ("rejected", one.rejected),
                ("duplicate", one.duplicate),
            )
            if count
        )
        text = (
            f"producer {one.producer or '(no hg-producer)'} sent {sent(one):,} events, of which "
            f"Kafka got {one.records:,} records; {counts} ended before it, {self.bytes:,} bytes"
        )
        if self.key is not None and self.key.key is not None:
            key = named(self.key.key)[:120]
            text += f"; most of it key {key} ({self.key.events:,} {self.key.outcome})"
        return text


def wasteful(figures: TopicFigures) -> Iterator[Waste]:
    """Producers that should send less, those with most bytes in vain first."""
    sizes: dict[str, int] = {}
    seen: dict[str, int] = {}
    for row in figures.unpublished.rows:
        sizes[row.producer] = sizes.get(row.producer, 0) + row.bytes
        seen[row.producer] = seen.get(row.producer, 0) + (row.seen or row.events)
    for one in sorted(figures.producers, key=lambda producer: -sizes.get(producer.producer, 0)):
        if seen.get(one.producer, 0) < FEW_SEEN:
            continue
        if one.in_vain >= FEW_EVENTS and one.in_vain >= WASTEFUL * (sent(one) or 0):
            keys = (key for key in figures.unpublished.keys if key.producer == one.producer)
            yield Waste(one, next(keys, None), sizes.get(one.producer, 0))
