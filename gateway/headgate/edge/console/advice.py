"""What to tell the owner of a producer: plain text, made from its figures."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headgate.core.outcome import TRAITS, Reason
from headgate.edge.console import wording

_MUCH = 0.2  # of the events: worth somebody's time
_SOME = 0.01
_HOT = 0.1  # of the bytes
_LARGE = 262_144  # bytes: consumers fetch such records one at a time

Json = Mapping[str, Any]


def letter(name: str, found: Json, rejects: Sequence[Json]) -> str:
    """For the clipboard. found: as the control plane shows a producer; rejects: newest first."""
    lines = [f"Producer {name}, as Headgate sees it:"]
    lines.append(
        f"- {wording.rate(found['events_per_s'])} events, {wording.rate(found['bytes_per_s'], 'B')}"
        f"; last seen {found['last_seen'] or 'never'}."
    )
    for topic in found["topics"]:
        lines += [f"- {topic['topic']}: {one}" for one in _of_topic(topic)]
    lines += [f"- {one}" for one in _of_rejects(rejects)]
    if len(lines) == 2:
        lines.append("- No problems found.")
    return "\n".join(lines)


def _of_topic(topic: Json) -> Iterator[str]:
    ratios = topic["ratios"]
    repeated = ratios["unchanged"] + ratios["superseded"]
    if repeated >= _MUCH:
        yield (
            f"{wording.share(repeated)} of the events are unchanged or superseded ("
            f"{wording.size(topic['bytes_saved_total'])} since the start). Publish on a change, "
            "not after every save."
        )
    if ratios["oversize"] >= _SOME:
        yield f"{wording.share(ratios['oversize'])} of the events are larger than the topic allows."
    sizes = topic["size_bytes"]
    if sizes and sizes["p99"] >= _LARGE:
        yield (
            f"events of {wording.size(sizes['p99'])} (1 in 100; the largest "
            f"{wording.size(sizes['max'])}) make consumers slow: split them, or send references."
        )
    hot = topic["keys"]["top_by_bytes"]
    if hot and hot[0]["share"] >= _HOT and topic["keys"]["cardinality"] > 1:
        yield (
            f"the key {hot[0]['key']!r} has {wording.share(hot[0]['share'])} of the bytes, all of "
            "them on one partition; more partitions do not help."
        )


def _of_rejects(rejects: Sequence[Json]) -> Iterator[str]:
    newest: dict[str, Json] = {}
    for one in rejects:
        newest.setdefault(one["reason"], one)
    for reason, one in newest.items():
        if reason in frozenset(Reason):
            request = f" in request {one['request_id']}" if one["request_id"] else ""
            yield (
                f"rejected on {one['topic']} with {reason} ({one['detail']}), last at {one['at']}"
                f"{request}. "
                f"{TRAITS[Reason(reason)].advice}"
            )
