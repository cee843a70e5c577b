"""What is wrong with a round: what clients were told, against what an independent client reads.

Each check yields sentences; nothing = right. Events without an answer and those answered `unknown`
may be in the log or not, and may land late; of no other is anything left open.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from chaos.cluster.traffic import GOOD
from chaos.suppression import moves
from chaos.suppression.history import Attempt, wrong_answers
from headgate.consumer.assembler import Assembler
from headgate.oversize.chunks import rebuild
from support.gateway.oversize_world import as_read
from support.kafka.kafka_log import LogRecord

Place = tuple[int, int]
_OPEN = (None, "unknown")


def of_single_records(attempts: Sequence[Attempt], log: Sequence[LogRecord]) -> Iterator[str]:
    """Topics whose every event is one record that no other event has.

    `published` is there, where it was said to be, once, in the order of its key; what was refused
    is not there; nothing is there twice.
    """
    places: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for record in log:
        found = json.loads(record.value or b"")
        places[found["id"], found["content"]].append((record.partition, record.offset))
    last: dict[tuple[str, int], Attempt] = {}
    for one in attempts:
        found = places.pop((one.key, one.content), [])
        if one.outcome == "published":
            if found != [one.place]:
                yield f"{one} is at {found}"
            before = last.get((one.key, one.partition))
            if before is not None and before.offset > one.offset:
                yield f"{one} lies below {before}"
            last[one.key, one.partition] = one
        elif one.outcome not in _OPEN and found:
            yield f"{one} was refused, and is at {found}"
        elif len(found) > 1:
            yield f"{one} is there {len(found)} times: {found}"
    for (key, content), where in places.items():
        yield f"nobody sent {key} {content}, which is at {where}"


def of_states(
    alone: Sequence[Attempt], raced: Sequence[Attempt], log: Sequence[LogRecord]
) -> Iterator[str]:
    """A topic that suppresses and grows. alone: of keys with one client each."""
    yield from (f"wrongly unchanged: {one}" for one in wrong_answers([*alone, *raced], log))
    yield from moves.wrong_unchanged(alone, log)
    yield from moves.stale_keys(alone, log)
    yield from moves.disorder(alone, log)
    yield from _refused([*alone, *raced], log)


def _refused(attempts: Iterable[Attempt], log: Iterable[LogRecord]) -> Iterator[str]:
    """What was refused is not in the log, and no event is there twice."""
    counts = Counter((record.header("hg-event-id") or b"").decode() for record in log)
    for one in attempts:
        if one.outcome not in (*GOOD, *_OPEN) and counts[one.event_id]:
            yield f"{one} was refused, and is in the log"
        if counts[one.event_id] > 1:
            yield f"{one} is there {counts[one.event_id]} times"


def of_split(attempts: Sequence[Attempt], log: Sequence[LogRecord]) -> Iterator[str]:
    """Each published document can be put together again from its manifest's place."""
    by_place = {(one.partition, one.offset): one for one in log}
    elements: dict[str, dict[bytes, bytes]] = defaultdict(dict)
    for record in log:
        if record.header("hg-split") == b"element":
            content = json.loads(record.value or b"")["content"]
            elements[content][record.key or b""] = record.value or b""
    for one in attempts:
        if one.outcome != "published":
            continue
        manifest = by_place.get(one.place)
        try:
            text = manifest.value if manifest else b""
            whole = json.loads(rebuild(text or b"", elements[one.content]))
        except (KeyError, ValueError) as error:
            yield f"{one}: {error!r} of {manifest}"
        else:
            if (whole["id"], whole["content"]) != (one.key, one.content):
                yield f"{one} is {whole['id']} {whole['content']}"


def of_chunked(topic: str, attempts: Sequence[Attempt], log: Sequence[LogRecord]) -> Iterator[str]:
    """What the consumer library makes of the log: every published event, whole, once, in order;
    none that was refused."""
    assembler, found = Assembler(), []
    for record in log:
        event = assembler.add(as_read(topic, record))
        if event is not None:
            value = json.loads(event.value or b"")
            found.append((value["id"], value["content"]))
    counts = Counter(found)
    told = [(one.key, one.content) for one in attempts if one.outcome == "published"]
    for one in attempts:
        times = counts[one.key, one.content]
        if one.outcome == "published" and times != 1:
            yield f"{one} is there {times} times"
        elif one.outcome not in (*GOOD, *_OPEN) and times:
            yield f"{one} was refused, and is there"
    if [name for name in found if name in set(told)] != told:
        yield f"{topic}: not in order"


def of_spooled(attempts: Sequence[Attempt], log: Sequence[LogRecord]) -> Iterator[str]:
    """Keys' contents only grow. What was answered well is there; first and last records of those
    are in the order of arrival. The same record may be repeated."""
    written: dict[str, list[str]] = defaultdict(list)
    for record in log:
        found = json.loads(record.value or b"")
        written[found["id"]].append(found["content"])
    for key, sent in moves.by_key(attempts).items():
        there = written[key]
        for one in sent:
            if one.outcome in GOOD and one.content not in there:
                yield f"{one} is not in the log"
        well = [one for one in sent if one.outcome in ("published", "spooled")]
        contents = sorted({one.content for one in well} & set(there), key=int)
        firsts = [there.index(content) for content in contents]
        lasts = [len(there) - 1 - there[::-1].index(content) for content in contents]
        for places, name in ((firsts, "first"), (lasts, "last")):
            if places != sorted(places):
                yield f"{key}: the {name} records are not in the order of arrival"
