"""Pages of `/v1/groups`: JSON documents of groups and clusters."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from headgate.kafka.groups import named
from headgate.model.text import counted
from headgate.model.times import shown_time
from headgate.monitor.cluster_monitor import ClusterMonitor
from headgate.monitor.cluster_watch import WatchOptions
from headgate.monitor.diagnosis import (
    NOT_PAUSED,
    NextRecord,
    PauseState,
    diagnose,
    facts_of,
    kafka_command,
    worst_partition,
)
from headgate.monitor.group_watch import (
    Drift,
    GroupReport,
    GroupWatch,
    Heat,
    PartitionReport,
    Regression,
    SeenCommit,
)
from headgate.monitor.rules import SEVERITY, LagState
from headgate.redis.pauses import ALL, Kept

Json = dict[str, Any]

# The state, after a single poll, of a group with lag. A monitor that goes on has none such.
UNKNOWN = "UNKNOWN"
_ONE_POLL = (
    "it has lag, and only a second poll shows whether it commits: run `headgate monitor` without "
    "--once, or read GET /v1/groups of a running one"
)

# Blind spots of all polls; every list names them, so that silence does not look like health.
CANNOT_BE_SEEN = (
    "Consumers that assign() partitions and never commit: Kafka lists no group for them. Only the "
    "brokers' bytes out beside what the groups here explain give them away.",
    "Offsets that a consumer keeps outside Kafka (in its own database): its group has no commits.",
)
_PAUSE_LOST = (
    "it reads although it is paused: a rebalance takes a plain client's pause away, and members "
    "that do not ask for intent know of none (headgate.consumer keeps it)"
)
_DRAIN_MS = 10_000  # records delivered before a pause are still committed


def group_row(
    cluster: str,
    watch: GroupWatch,
    report: GroupReport,
    options: WatchOptions,
    kept: Sequence[Kept] | None,
) -> Json:
    """Return one row of the list; `kept` are the group's pauses, None if they are unknown."""
    return {
        "group": watch.name,
        "cluster": cluster,
        "state": report.state,
        "lag": report.lag,
        "still_since": _still_since(watch, report),
        "stuck_commit": report.is_stuck,
        "heat": report.heat,
        "position_age_s": seconds(report.age_ms),
        "loss_in_s": seconds(report.loss_ms),
        "protocol": watch.described.protocol,
        "status": watch.described.status,
        "members": len(watch.described.members),
        "idle_members": report.idle_members,
        "deaf_members": sum(each.reads_pauses is False for each in watch.described.members),
        "topics": sorted({partition_key.topic for partition_key in watch.tracks}),
        "unread_topics": list(report.unread_topics),
        "regressions": watch.regressions,
        "paused": None if kept is None else bool(kept),
        "not_obeyed": pause_state(watch, report, kept or ()).disobeyed or None,
        "probation": probation(watch, options),
        "hints": hints(watch, report),
    }


def _still_since(watch: GroupWatch, report: GroupReport) -> str | None:
    worst = worst_partition(report)
    track = None if worst is None or not worst.lag else watch.tracks.get(worst.partition)
    return None if track is None else shown_time(track.window.still_since[0])


def unjudged(row: Json) -> Json:
    """Return the row of a group with lag after a single poll."""
    if row["state"] is not LagState.OK:
        return row
    return {**row, "state": UNKNOWN, "hints": [*row["hints"], _ONE_POLL]}


def group_page(
    cluster: ClusterMonitor,
    watch: GroupWatch,
    report: GroupReport,
    kept: Sequence[Kept] | None,
    now_ms: int,
    record: NextRecord | None = None,
) -> Json:
    """Return the page of one group on one cluster.

    Args:
        cluster: The cluster's monitor.
        watch: State of the group.
        report: Report on the group.
        kept: Pauses of the group; None if they are unknown.
        now_ms: Milliseconds since 1970.
        record: The record at the position of the worst partition, if it was read.
    """
    intents = kept or ()
    falls = [each for each in cluster.watch.regressions if each.group == watch.name]
    row = group_row(cluster.name, watch, report, cluster.watch.options, kept)
    if any(_moved_while_paused(each, intents) for each in report.partitions):
        row["hints"].append(_PAUSE_LOST)
    worst = worst_partition(report)
    here = [each for each in falls if worst and (each.topic, each.partition) == worst.partition]
    fall = next((each for each in reversed(here) if each.recovered_ms is None), None)
    pause = pause_state(watch, report, intents)
    facts = facts_of(watch, report, now_ms, fall=fall, record=record, pause=pause)
    status = cluster.status
    unseen = "" if status.ok or status.polled_ms is None else status.detail
    return {
        **row,
        "diagnosis": diagnose(facts._replace(unseen=unseen))._asdict(),
        "lag_over_time": [
            {"at": shown_time(at_ms), "lag": lag} for at_ms, lag in watch.lags.points()
        ],
        "owners": [
            {
                "member": member.member_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": [
                    {"topic": assigned.topic, "partition": assigned.partition}
                    for assigned in sorted(member.assigned)
                ],
            }
            for member in watch.described.members
        ],
        "partitions": [partition(each, intents) for each in report.partitions],
        "recent_regressions": [regression(fall) for fall in reversed(falls)],
        "pauses": None
        if kept is None
        else [
            {
                "scope": str(intent.intent.scope),
                "reason": intent.intent.reason,
                "by": intent.by,
                "at": shown_time(intent.at_ms),
            }
            for intent in kept
        ],
    }


def pause_state(watch: GroupWatch, report: GroupReport, kept: Sequence[Kept]) -> PauseState:
    """Return the pauses of a group, and whether its members obey them."""
    if not kept:
        return NOT_PAUSED
    reasons = tuple(f"{each.intent.scope}: {each.intent.reason}, by {each.by}" for each in kept)
    worst = worst_partition(report)
    scopes = [each.intent.scope for each in kept]
    here = [scope for scope in scopes if scope == ALL or (worst and scope.covers(*worst.partition))]
    subject = "" if not here else "The group" if ALL in here else f"`{here[0]}`"
    members = watch.described.members
    deaf = [
        member
        for member in members
        if member.reads_pauses is False
        and (
            ALL in scopes
            or any(scope.covers(*each) for scope in scopes for each in member.assigned)
        )
    ]
    if deaf:
        some = "obeyed in part" if len(deaf) < len(members) else "not obeyed"
        number = counted(len(deaf), "member does", "members do")
        disobeyed = f"{some}: {number} not use Headgate's consumer library with a pause store"
    elif any(_moved_while_paused(each, kept) for each in report.partitions):
        disobeyed = "not obeyed: its position has moved since"
    else:
        disobeyed = ""
    return PauseState(reasons, subject, disobeyed)


def partition_row(report: PartitionReport) -> Json:
    """Return one partition of a group, without its commits and pauses."""
    owner = report.owner
    return {
        "topic": report.partition.topic,
        "partition": report.partition.partition,
        "state": report.state,
        "pace": report.pace,
        "committed": report.committed,
        "beyond_end": report.beyond_end,
        "start": report.start,
        "end": report.end,
        "lag": report.lag,
        "internal_lag": report.internal_lag,
        "stuck_commit": report.is_stuck,
        "unread": report.is_unread,
        "lost": report.lost,
        "heat": report.heat,
        "position_age_s": seconds(report.age_ms),
        "clear_in_s": seconds(report.clear_ms),
        "loss_in_s": seconds(report.loss_ms),
        "owner": None if owner is None else named(owner.member),
        "owner_before": None if owner is None else owner.before,
        "owner_since": None if owner is None else shown_time(owner.since_ms),
    }


def partition(report: PartitionReport, intents: Sequence[Kept]) -> Json:
    """Return one partition of a group."""
    return {
        **partition_row(report),
        "paused": any(intent.intent.scope.covers(*report.partition) for intent in intents),
        "read_while_paused": _moved_while_paused(report, intents),
        "commits": [commit(seen) for seen in reversed(report.commits)],
    }


def _moved_while_paused(report: PartitionReport, intents: Sequence[Kept]) -> bool:
    since = [intent.at_ms for intent in intents if intent.intent.scope.covers(*report.partition)]
    if not since:
        return False
    pairs = zip(report.commits, report.commits[1:], strict=False)
    return any(
        after.offset > before.offset and after.at_ms > min(since) + _DRAIN_MS
        for before, after in pairs
    )


def commit(seen: SeenCommit) -> Json:
    """Return one commit of the commit stream."""
    return {"offset": seen.offset, "at": shown_time(seen.at_ms), "by": _committer(seen)}


def _committer(seen: SeenCommit | Regression) -> Json | None:
    return None if seen.committer is None else seen.committer._asdict()


def regression(fall: Regression) -> Json:
    """Return a commit that went back."""
    return {
        "group": fall.group,
        "topic": fall.topic,
        "partition": fall.partition,
        "from": fall.from_offset,
        "to": fall.to_offset,
        "at": shown_time(fall.at_ms),
        "committer": _committer(fall),
        "owner": fall.owner,
        "owner_before": fall.owner_before,
        "recovered_at": None if fall.recovered_ms is None else shown_time(fall.recovered_ms),
    }


def cluster_row(cluster: ClusterMonitor) -> Json:
    """Return a cluster: the age of its data, its blind spots and its partitions' health."""
    status, watch = cluster.status, cluster.watch
    return {
        "cluster": cluster.name,
        "ok": status.ok,
        "detail": status.detail,
        "looked_at": None if status.polled_ms is None else shown_time(status.polled_ms),
        "look_s": round(status.poll_s, 3),
        "every_commit_is_seen": not status.commits,
        "why_not": status.commits or None,
        "partitions": watch.health._asdict(),
        "rogue_readers": [
            {
                "topic": rogue.topic,
                "bytes_per_s": round(rogue.bytes_per_s),
                "unexplained_per_s": round(rogue.unexplained_per_s),
                "since": shown_time(rogue.since_ms),
            }
            for rogue in cluster.readers.rogues()
        ],
        "rogue_readers_unknown": cluster.rogue_detail or None,
        "drift": [drift(each) for each in reversed(watch.drifts)],
    }


def drift(change: Drift) -> Json:
    """Return a change of a topic."""
    return {
        "what": change.what,
        "topic": change.topic,
        "before": change.before,
        "after": change.after,
        "at": shown_time(change.at_ms),
    }


def probation(watch: GroupWatch, options: WatchOptions) -> Json:
    """Return the group's probation, and its remaining conditions."""
    state = watch.probation
    is_admitted = state.admitted_ms is not None
    ends_ms = None if state.kept_ms is None else state.kept_ms + options.probation_ms
    return {
        "admitted": is_admitted,
        "first_seen": shown_time(state.first_seen_ms),
        "keeps_up_since": None if state.kept_ms is None else shown_time(state.kept_ms),
        "ends_at": None if is_admitted or ends_ms is None else shown_time(ends_ms),
    }


def hints(watch: GroupWatch, report: GroupReport) -> list[str]:
    """Return hints for an operator, the first steps first."""
    said = []
    name = watch.name
    if report.is_stuck:
        said.append(
            "stuck commit: a former owner committed below what is done; nothing is committed until "
            "something new arrives, and a rebalance repeats work. Restart one member, or set the "
            "offset (runbook HeadgateStuckCommit)"
        )
    if report.state is LagState.REWIND:
        still = {each.pace for each in report.partitions if each.state is LagState.REWIND}
        if still & {LagState.STOP, LagState.STALL}:
            said.append(
                "it was set back, and commits nothing new since: look at its members, not only at "
                "who set it back"
            )
    if any(each.beyond_end for each in report.partitions):
        said.append(
            "a commit lies beyond the log's end: the log was cut off or recreated, or the offset "
            "was set by hand. The consumer begins where its auto.offset.reset says, or skips what "
            "is written until the log is as long. Set the offset"
        )
    if report.state in (LagState.STOP, LagState.STALL) and not watch.described.members:
        said.append("the group has no members: start one")
    elif not said and report.state is LagState.STOP:
        said.append(
            "it has members and commits nothing, although records wait: look at the log of the "
            "member that owns the partition, for an error or a record that it cannot process"
        )
    said += [
        f"no member reads topic {topic}: none subscribes to it any more, and its offsets are left "
        "over. Subscribe a member, or delete them: "
        + kafka_command(name, "--topic", topic, "--delete-offsets")
        for topic in report.unread_topics
    ]
    if any(each.committed is None for each in report.partitions):
        said.append("some partitions have an owner and no commit: what it does cannot be seen")
    if any(each.lost and not each.is_unread for each in report.partitions):
        said.append("retention has taken records before they were committed")
    if report.idle_members:
        said.append(f"{report.idle_members} members own nothing: more members than partitions")
    lags = report.state is not LagState.OK or report.heat is Heat.COLD
    if watch.probation.admitted_ms is None and lags:
        said.append(
            "on probation and does not keep up: read from the backfill tier, or pause it "
            f"(PUT /v1/pauses/{name}; it needs members that use headgate.consumer), or set a quota "
            "on its client id at the broker"
        )
    elif report.heat is Heat.COLD:
        said.append("reads from the brokers' disks: replays belong to the backfill tier")
    return said


def seconds(ms: int | None) -> float | None:
    return None if ms is None else round(ms / 1000, 1)


class RowPlace(NamedTuple):
    """The sort key of a group's row in the list: the worst first."""

    mildness: int
    slack: int
    group: str
    cluster: str

    def text(self) -> str:
        """Return the key as a page's `next` value."""
        return f"{-self.mildness}.{-self.slack}.{self.cluster}/{self.group}"

    @classmethod
    def read(cls, text: str) -> "RowPlace | None":
        """Return the key of a `next` value; None if it is malformed."""
        match = re.fullmatch(r"([0-9]{1,2})\.([0-9]{1,20})\.([^/]*)/(.*)", text, re.DOTALL)
        return match and cls(-int(match[1]), -int(match[2]), match[4], match[3])


def row_place(row: Json) -> RowPlace:
    """Return the sort key of a row of `group_row`."""
    return RowPlace(-SEVERITY[row["state"]], -row["lag"], row["group"], row["cluster"])
