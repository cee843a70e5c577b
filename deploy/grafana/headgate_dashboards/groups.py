"""Which consumer groups lag, which are in trouble, and can the monitor see them?"""

from headgate_dashboards.board import (
    Board,
    Form,
    Panel,
    Query,
    Row,
    Unit,
    Variable,
    bad_below,
    bad_from,
)
from headgate_dashboards.queries import OF_CLUSTER, OF_GROUP, increase_by, now, now_by, recorded

_GROUP = Variable("group", "headgate_group_state")
_CLUSTER = Variable("cluster", "headgate_monitor_look_age_seconds")


def _by_group(metric: str) -> tuple[Query, ...]:
    return now_by(metric, "group", OF_GROUP, "max")


_STATES = Row(
    "States",
    (
        Panel(
            "Groups by state",
            "OK; WARN: lag that never falls; STALL: commits without progress; STOP: lag and no "
            "commits; REWIND: commits went back.",
            Unit.COUNT,
            "operate/consumer-groups#states",
            now_by("headgate_group_state", "state", OF_GROUP),
            width=12,
            is_stacked=True,
        ),
        Panel(
            "Groups by what they read",
            "hot: from the brokers' page cache; cooling; cold: from disk, at the cost of everybody "
            "else.",
            Unit.COUNT,
            "operate/runbooks/groups/cold-reads",
            now_by("headgate_group_heat", "heat", OF_GROUP),
            width=12,
            is_stacked=True,
        ),
        Panel(
            "Groups now",
            "One row for each group. loss in: until retention takes records that it will not have "
            "read by then; empty while it keeps up.",
            Unit.COUNT,
            "operate/consumer-groups#fields-of-a-group",
            (
                Query(now("group:headgate_group_lag:sum", "group", OF_GROUP), "lag"),
                Query(
                    now("headgate_group_position_age_seconds", "group", OF_GROUP, "max"),
                    "age of position",
                    Unit.SECONDS,
                ),
                Query(
                    now("headgate_group_loss_seconds", "group", OF_GROUP, "max"),
                    "loss in",
                    Unit.SECONDS,
                ),
                Query(
                    now("headgate_group_stuck_commits", "group", OF_GROUP, "max"),
                    "stuck commit",
                    Unit.YES_NO,
                ),
                Query(
                    now("headgate_group_probation", "group", OF_GROUP, "max"),
                    "on probation",
                    Unit.YES_NO,
                ),
                Query(now("headgate_group_idle_members", "group", OF_GROUP, "max"), "idle members"),
            ),
            Form.TABLE,
            width=24,
        ),
    ),
)
_LAG = Row(
    "Lag",
    (
        Panel(
            "Lag by group",
            "Records between a group's commits and the log's end.",
            Unit.COUNT,
            "operate/runbooks/groups/group-falls-behind",
            (Query(recorded("group:headgate_group_lag:sum", OF_GROUP), "{{group}}"),),
        ),
        Panel(
            "Lag by topic",
            "The same, for each topic that a group reads.",
            Unit.COUNT,
            "operate/runbooks/groups/group-falls-behind",
            now_by("headgate_group_lag", "group, topic", OF_GROUP),
        ),
        Panel(
            "Largest lag of a partition",
            "Far from the group's average: one partition is stuck, or one key is hot.",
            Unit.COUNT,
            "operate/runbooks/groups/group-stopped",
            now_by("headgate_group_lag", "group, topic", OF_GROUP, "max"),
        ),
        Panel(
            "Age of what is read next",
            "Of the oldest record that a group has still to read; 0 without lag.",
            Unit.SECONDS,
            "operate/consumer-groups#fields-of-a-group",
            _by_group("headgate_group_position_age_seconds"),
            width=12,
        ),
        Panel(
            "Time until records are lost",
            "Until retention takes records that a group will not have read by then.",
            Unit.SECONDS,
            "operate/runbooks/groups/records-will-be-lost",
            _by_group("headgate_group_loss_seconds"),
            steps=bad_below(6 * 3600),
            width=12,
        ),
    ),
)
_COMMITS = Row(
    "Commits and members",
    (
        Panel(
            "Commits that went back",
            "Commits that were lower than the one before, also those made good since.",
            Unit.COUNT,
            "operate/runbooks/groups/commits-go-back",
            increase_by("headgate_commit_regressions_total", "group, topic", OF_GROUP),
            width=6,
        ),
        Panel(
            "Stuck commits",
            "1 while a former owner's commit lies below what is done: lag that nobody works off.",
            Unit.YES_NO,
            "operate/runbooks/groups/stuck-commit",
            _by_group("headgate_group_stuck_commits"),
            steps=bad_from(1),
            width=6,
        ),
        Panel(
            "On probation",
            "New groups that have not kept up for long enough.",
            Unit.YES_NO,
            "operate/runbooks/groups/new-group-lags",
            _by_group("headgate_group_probation"),
            width=6,
        ),
        Panel(
            "Idle members",
            "Members that own no partition.",
            Unit.COUNT,
            "operate/runbooks/groups/idle-members",
            _by_group("headgate_group_idle_members"),
            width=6,
        ),
    ),
)
_MONITOR = Row(
    "The monitor",
    (
        Panel(
            "Age of the last poll",
            "Older than some intervals: the groups above are as they were then.",
            Unit.SECONDS,
            "operate/runbooks/monitor/monitor-is-blind",
            now_by("headgate_monitor_look_age_seconds", "cluster", OF_CLUSTER, "max"),
            steps=bad_from(120, 60),
            width=6,
        ),
        Panel(
            "Time of a poll",
            "How long the last one took.",
            Unit.SECONDS,
            "operate/consumer-groups",
            now_by("headgate_monitor_look_seconds", "cluster", OF_CLUSTER, "max"),
            width=6,
        ),
        Panel(
            "Follows every commit",
            "Whether it reads all commits as they are made, and not only polls.",
            Unit.YES_NO,
            "operate/runbooks/monitor/monitor-misses-commits",
            now_by("headgate_monitor_follows_commits", "cluster", OF_CLUSTER, "min"),
            steps=bad_below(1),
            width=6,
        ),
        Panel(
            "Reads that no group explains",
            "Bytes that leave the brokers beyond what groups make progress: a client without "
            "commits.",
            Unit.BYTES_PER_S,
            "operate/runbooks/groups/rogue-reader",
            now_by("headgate_unexplained_bytes_per_second", "cluster, topic", OF_CLUSTER, "max"),
            steps=bad_from(1_048_576),
            width=6,
        ),
    ),
)

GROUPS = Board(
    "groups",
    "Headgate / Consumer groups",
    "Which groups lag, which are in trouble, and can the monitor see them?",
    (_GROUP, _CLUSTER),
    (_STATES, _LAG, _COMMITS, _MONITOR),
)
