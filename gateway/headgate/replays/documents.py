"""What the registry keeps of a replay that was asked for, and what a dry run says of one."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from headgate.config.settings import ReplaySettings
from headgate.core.refusal import Refused, malformed
from headgate.core.replays.plan import shown, totals
from headgate.core.replays.spec import ReplayMode, Spec
from headgate.replays.answers import REQUIRED
from headgate.replays.planner import PlannedReplay
from headgate.replays.tiers import Tiers

# What a runner copies at least; 29,000 of 648 bytes were measured (docs/operate/replays.md).
RECORDS_PER_S = 20_000
_MAX_PLAN_BYTES = 800_000


class Author(NamedTuple):
    """Who asks, when, and under which id."""

    name: str
    now_ms: int
    replay_id: str


def document_of(
    request_body: Mapping[str, Any],
    spec: Spec,
    tiers: Tiers,
    planned: PlannedReplay,
    author: Author,
    settings: ReplaySettings,
) -> dict[str, Any]:
    """The spec record: all that a runner must know, with the quotas as they were when asked."""
    sums = totals(planned.plans)
    records = sums.records + planned.cold_records
    rate = {
        "records_per_s": spec.rate.records_per_s,
        "bytes_per_s": _smallest(spec.rate.bytes_per_s, settings.bytes_per_s),
        "cold_bytes_per_s": _smallest(spec.rate.bytes_per_s, settings.cold_bytes_per_s),
        "cold_in_all_bytes_per_s": settings.cold_bytes_per_s,
    }
    if len(planned.plans) * 400 > _MAX_PLAN_BYTES:
        detail = f"{len(planned.plans)} partitions are too many for one replay: ask for some"
        raise Refused(malformed(detail))
    return {
        "asked": request_body,
        "mode": str(spec.deliver.mode),
        "group": spec.deliver.group,
        "topic": spec.topic,
        "cluster": tiers.ingest,
        "backfill": tiers.backfill,
        "by": author.name,
        "created_ms": author.now_ms,
        "made_by": os.urandom(8).hex(),  # tells a repeat from an attempt whose end was not known
        "partitions": planned.partitions,
        "plan": shown(planned.plans),
        "topic_ids": dict(planned.topic_ids),
        "records": records,
        "cold_records": planned.cold_records,
        "bytes": planned.bytes,
        "cold_offsets": sums.cold,
        "lost_offsets": sums.lost,
        "covered": not sums.cold and not sums.lost,
        "seconds": _seconds(spec, rate, records, planned.bytes),
        "rate": rate,
        "ttl_s": _smallest(spec.deliver.ttl_s, settings.ttl_s),
        "keep_s": settings.keep_s,
    }


def dry_page(
    document: Mapping[str, Any], planned: Mapping[str, Any], tiers: Tiers
) -> dict[str, Any]:
    """What a dry run answers: nothing was registered."""
    request_body = {name: value for name, value in document["asked"].items() if name != "dry_run"}
    return {
        "dry_run": True,
        **request_body,
        "planned": planned,
        "bootstrap_servers": tiers.servers,
        "required": REQUIRED,
    }


def _smallest(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


def _seconds(
    spec: Spec, rate: Mapping[str, int | None], records: int, total_bytes: int | None
) -> float:
    """An estimate of the copying time, without what waits for a runner."""
    if spec.deliver.mode is not ReplayMode.TOPIC:
        return 0.0
    by_records = records / min(rate["records_per_s"] or RECORDS_PER_S, RECORDS_PER_S)
    bytes_per_s = rate["bytes_per_s"]
    by_bytes = (total_bytes or 0) / bytes_per_s if bytes_per_s else 0.0
    return round(max(by_records, by_bytes), 1)
