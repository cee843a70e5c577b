"""The diagnosis of a group: one sentence of facts, likely causes in order, and the next steps.

`diagnose` is pure: it takes only the facts of the monitor.
"""

import shlex
from typing import NamedTuple

from headgate.kafka.groups import GroupMember
from headgate.model.reply import shown_text
from headgate.model.text import counted, one_line
from headgate.model.times import shown_time
from headgate.monitor.group_watch import GroupReport, GroupWatch, PartitionReport, Regression
from headgate.monitor.rules import SEVERITY, LagState

_MAX_KEY = 80  # characters of a key in the sentence
_LARGE_BYTES = 524_288  # above this, the size of the next record is a likely cause
_RATE_MS = 600_000  # the lag's change is that of the last ten minutes
_LEAST_MS = 60_000  # a change over a shorter time says nothing
_SHORT_MS = 15_000  # a position that stands for a shorter time is nothing to mention


class NextRecord(NamedTuple):
    """The record at a group's position: its key, and its size with key and headers."""

    offset: int
    key: bytes | None
    bytes: int


class PauseState(NamedTuple):
    """The pauses of a group.

    Attributes:
        reasons: Scope, reason and operator of each pause, in words; empty if there are none.
        subject: The paused part with the worst partition, in words; empty if that is not paused.
        disobeyed: The reason why a pause has no effect; empty if it has.
    """

    reasons: tuple[str, ...] = ()
    subject: str = ""
    disobeyed: str = ""


NOT_PAUSED = PauseState()


class Facts(NamedTuple):
    """The facts of the monitor about one group.

    Attributes:
        worst: The partition that decides the state; None without a position.
        still_ms: Time with work and no new commit there, in milliseconds.
        is_exact: Whether the monitor saw its beginning; else `still_ms` is a lower bound.
        owner: The owner of that partition.
        repeats: Whether the same offset is committed again and again.
        is_joining: Whether a rebalance is in progress.
        lag_change: Change of the group's lag, and its time in milliseconds; None if unknown.
        fall: The newest regression of that partition.
        unseen: The reason why the last poll failed; empty if it succeeded.
    """

    group: str
    report: GroupReport
    members: int = 0
    worst: PartitionReport | None = None
    still_ms: int = 0
    is_exact: bool = True
    owner: GroupMember | None = None
    repeats: bool = False
    is_joining: bool = False
    lag_change: tuple[int, int] | None = None
    fall: Regression | None = None
    record: NextRecord | None = None
    pause: PauseState = NOT_PAUSED
    unseen: str = ""


class Diagnosis(NamedTuple):
    """The sentence, the likely causes and the next steps, the most likely first."""

    sentence: str
    causes: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


def worst_partition(report: GroupReport) -> PartitionReport | None:
    """Return the partition that decides the group's state, with the largest lag among equals."""
    counted_ones = [each for each in report.partitions if not each.is_unread]
    return max(counted_ones, key=lambda each: (SEVERITY[each.state], each.lag), default=None)


def facts_of(
    watch: GroupWatch,
    report: GroupReport,
    now_ms: int,
    fall: Regression | None = None,
    record: NextRecord | None = None,
    pause: PauseState = NOT_PAUSED,
) -> Facts:
    """Collect the facts about a group from the state of its watch."""
    facts = Facts(
        watch.name, report, len(watch.described.members), fall=fall, record=record, pause=pause,
        is_joining=watch.described.status.endswith("Rebalance"),
        lag_change=watch.lags.change(now_ms, _RATE_MS, _LEAST_MS),
    )  # fmt: skip
    worst = worst_partition(report)
    if worst is None or (track := watch.tracks.get(worst.partition)) is None:
        return facts
    last = [seen.offset for seen in worst.commits[-2:]]
    since_ms, is_exact = track.window.still_since
    newest = track.window.newest  # after it, the monitor does not know whether it moved
    return facts._replace(
        worst=worst,
        still_ms=max(0, (now_ms if newest is None else newest.at_ms) - since_ms),
        is_exact=is_exact,
        owner=None if worst.owner is None else worst.owner.member,
        repeats=worst.state is LagState.STALL and len(last) == 2 and last[0] == last[1],
    )


def diagnose(facts: Facts) -> Diagnosis:
    """Return the diagnosis of a group."""
    diagnosis = _state(facts)
    is_only = facts.worst is None and not facts.pause.reasons
    for topic in facts.report.unread_topics:
        sentence = f"No member reads `{topic}`: delete its offsets."
        diagnosis = Diagnosis(
            sentence if is_only else f"{diagnosis.sentence} {sentence}",
            diagnosis.causes,
            (*(() if is_only else diagnosis.next), _delete_offsets(facts.group, topic)),
        )
        is_only = False
    if facts.unseen:
        unseen = f"The cluster cannot be polled ({facts.unseen}), so this is the last known state."
        diagnosis = diagnosis._replace(sentence=f"{unseen} {diagnosis.sentence}")
    return diagnosis


def kafka_command(group: str, *options: str) -> str:
    """Return Kafka's command for a group, quoted for a shell: clients choose the names."""
    words = ("kafka-consumer-groups.sh", "--bootstrap-server", "BROKER", "--group", group, *options)
    return shlex.join(words)


def _delete_offsets(group: str, topic: str) -> str:
    command = kafka_command(group, "--topic", topic, "--delete-offsets")
    return f"Delete the offsets that are left over: {command}"


def _state(facts: Facts) -> Diagnosis:
    worst, pause = facts.worst, facts.pause
    paused = f"{pause.subject or 'A part'} is paused ({'; '.join(pause.reasons)})"
    if pause.disobeyed:
        rest = _state(facts._replace(pause=NOT_PAUSED))
        return Diagnosis(
            f"{paused}, which is {pause.disobeyed}. {rest.sentence}",
            ("Plain Kafka clients do not read pauses.", *rest.causes),
            (
                "Use headgate.consumer with pauses=RedisPauses(...), or stop the members.",
                "Resume the pause if it is not wanted.",
                *rest.next,
            ),
        )
    if pause.subject:
        return Diagnosis(
            f"{paused}: no member reads it, and {_waiting(facts.report.lag)}.",
            ("An operator paused it.",),
            ("Resume every reason, here or with `headgate resume`.",),
        )
    if worst is None:
        return _without_position(facts)
    if not facts.members:
        return _empty(facts, worst)
    if worst.state is LagState.OK:
        return _keeps_up(facts)
    if worst.state is LagState.WARN:
        return _falls_behind(facts, worst)
    if worst.state is LagState.REWIND:
        return _went_back(facts, worst)
    return _hangs(facts, worst)


def _without_position(facts: Facts) -> Diagnosis:
    if facts.members:
        return Diagnosis(
            f"The group has {counted(facts.members, 'member')} and no committed offset: its "
            "progress cannot be seen."
        )
    return Diagnosis("The group is empty: it has neither members nor committed offsets.")


def _empty(facts: Facts, worst: PartitionReport) -> Diagnosis:
    sentence = f"The group is empty: it has no members, and {_waiting(facts.report.lag)}."
    if not facts.report.lag:
        return Diagnosis(sentence)
    return Diagnosis(
        f"{sentence} {_stands(facts, worst)}{_trend(facts)}",
        (
            "Its consumers are stopped, or ended with an error.",
            "Its consumers cannot reach the brokers, or may not join the group.",
            "The consumers use another group id.",
        ),
        (
            "Start a consumer, and look at the end of the log of the last one.",
            f"If the group is not used, delete it: {kafka_command(facts.group, '--delete')}",
        ),
    )


def _hangs(facts: Facts, worst: PartitionReport) -> Diagnosis:
    said, causes, steps = [_stands(facts, worst)], [], []
    owner = facts.owner
    if owner is None and facts.is_joining:
        said.append("The group is in a rebalance, and no member owns the partition.")
        causes.append("A member does not rejoin: it is still busy with its last records.")
        steps.append("Find the member that does not rejoin in the logs, and restart it.")
    elif owner is None:
        said.append("No member owns it.")
        causes.append("The members subscribe to other topics, or assign partitions by hand.")
        steps.append("Compare the subscriptions of the members with the topic.")
    else:
        name = owner.client_id or owner.member_id
        verb = "commits this offset again and again" if facts.repeats else "still owns it"
        said.append(f"Member {name} is alive and {verb}.")
        causes += _causes_of_a_hang(facts, worst)
        host = owner.host.lstrip("/")
        steps.append(f"Look at the log and the stack of member {name} at {host}.")
        others = ": another member takes over the partition" if facts.members > 1 else ""
        steps.append(f"Restart {name}{others}.")
        if worst.committed is not None:
            steps.append(_skip(facts, worst))
    if facts.record is not None:
        said.append(_next_record(facts.record))
    return Diagnosis(" ".join(said) + _trend(facts), tuple(causes), tuple(steps))


def _causes_of_a_hang(facts: Facts, worst: PartitionReport) -> list[str]:
    offset = worst.committed if facts.record is None else facts.record.offset
    record = "the next record" if offset is None else f"the record at offset {offset:,}"
    handler = [
        f"The handler waits without a timeout in {record}, such as for a service.",
        f"The handler fails on {record} and repeats it.",
    ]
    if facts.repeats:
        handler.reverse()
    if facts.record is not None and facts.record.bytes >= _LARGE_BYTES:
        large = "The next record is large: it exceeds a limit or a timeout of the handler."
        return [large, *handler]
    return [*handler, "The member processes records and does not commit them."]


def _skip(facts: Facts, worst: PartitionReport) -> str:
    topic, number = worst.partition
    offset = worst.committed if facts.record is None else facts.record.offset
    options = ("--topic", f"{topic}:{number}", "--reset-offsets", "--to-offset")
    command = kafka_command(facts.group, *options, str((offset or 0) + 1), "--execute")
    return (
        f"If this record can be skipped, stop the members and set the offset behind it: {command}"
    )


def _went_back(facts: Facts, worst: PartitionReport) -> Diagnosis:
    fall = facts.fall
    if fall is None:
        sentence = f"{_where(worst)} went back and has not recovered."
    else:
        by = "" if fall.committer is None else f" by {fall.committer.client}"
        sentence = (
            f"{_where(worst)} went back from offset {fall.from_offset:,} to {fall.to_offset:,} at "
            f"{shown_time(fall.at_ms)}{by}, and has not recovered."
        )
    causes = (
        "A former owner committed after the partition changed hands.",
        "Somebody set the offset back.",
    )
    if worst.is_stuck:
        return Diagnosis(
            f"{sentence} No record waits behind the earlier offset, so no member commits.",
            causes[:1],
            ("Restart one member, or set the offset.",),
        )
    if worst.pace in (LagState.STOP, LagState.STALL):
        hang = _hangs(facts, worst)
        return Diagnosis(f"{sentence} {hang.sentence}", hang.causes + causes, hang.next)
    return Diagnosis(
        f"{sentence}{_trend(facts)}",
        causes,
        ("Wait until the group reaches its former offset. It processes these records again.",),
    )


def _falls_behind(facts: Facts, worst: PartitionReport) -> Diagnosis:
    return Diagnosis(
        f"The group commits, but does not catch up: {_waiting(facts.report.lag)}, most on "
        f"{_place(worst)}.{_trend(facts)}",
        (
            "The members process fewer records than arrive.",
            "One partition gets most of the records (a hot key).",
            "A rebalance repeats work.",
        ),
        (
            "Compare the lag of the partitions: if one leads, look at its hot keys.",
            "If all lag, add members (up to the number of partitions) or speed up the handler.",
        ),
    )


def _keeps_up(facts: Facts) -> Diagnosis:
    idle = facts.report.idle_members
    spare = f" {counted(idle, 'member has', 'members have')} no partition." if idle else ""
    sentence = f"The group keeps up: {_waiting(facts.report.lag)}."
    if facts.worst is not None and facts.worst.lag and facts.still_ms >= _SHORT_MS:
        sentence = (
            f"No fault is known yet: {_waiting(facts.report.lag)}. {_stands(facts, facts.worst)}"
        )
    return Diagnosis(f"{sentence}{_trend(facts)}{spare}")


# ---- words


def _place(worst: PartitionReport) -> str:
    return f"partition {worst.partition.partition} of {worst.partition.topic}"


def _where(worst: PartitionReport) -> str:
    return f"P{_place(worst)[1:]}"


def _stands(facts: Facts, worst: PartitionReport) -> str:
    if worst.beyond_end:
        return (
            f"The offset {worst.committed:,} of {_place(worst)} is beyond the log's end "
            f"{worst.end:,}."
        )
    least = "" if facts.is_exact else "at least "
    since = f"for {least}{long(facts.still_ms)}"
    if worst.committed is None:
        return f"{_where(worst)} has no committed offset, {since}."
    return f"{_where(worst)} has not moved from offset {worst.committed:,} {since}."


def _next_record(record: NextRecord) -> str:
    key = "has no key"
    if record.key is not None:
        text = one_line(shown_text(record.key.decode("utf-8", "backslashreplace")))
        key = f"key is {text if len(text) <= _MAX_KEY else text[:_MAX_KEY] + '...'}"
    name = "The next record's" if record.key is not None else "The next record"
    return f"{name} {key}; it is {_size(record.bytes)}."


def _trend(facts: Facts) -> str:
    if facts.lag_change is None:
        return ""
    change, over_ms = facts.lag_change
    if change > 0:
        return f" The lag grows: {counted(change, 'record')} more in {long(over_ms)}."
    if change < 0:
        return f" The lag falls: {counted(-change, 'record')} fewer in {long(over_ms)}."
    return " The lag does not grow." if facts.report.lag else ""


def _waiting(lag: int) -> str:
    return f"{counted(lag, 'record waits', 'records wait')}" if lag else "no record waits"


def _size(size: int) -> str:
    for factor, unit in ((1_000_000, "MB"), (1_000, "kB")):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"


def long(ms: int) -> str:
    """Return a duration in words: 30 seconds, 41 minutes, 5 hours, 3 days."""
    for length_ms, name in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute")):
        if ms >= 2 * length_ms:
            return counted(ms // length_ms, name)
    return counted(ms // 1000, "second")
