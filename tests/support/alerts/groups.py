"""Cases of the alerts of groups."""

from __future__ import annotations

from support.alerts.case import Case, counts, over, state

_REGRESSIONS = 'headgate_commit_regressions_total{cluster="c",group="g",topic="t"}'
_PROBATION = 'headgate_group_probation{cluster="%s",group="g"}'
_LAG = 'headgate_group_lag{cluster="%s",group="g",topic="t"}'

CASES = (
    Case("HeadgateStuckCommit", *over('headgate_group_stuck_commits{cluster="c",group="g"}', 1, 0)),
    Case("HeadgateGroupRewound", *state("REWIND")),
    Case("HeadgateGroupStopped", *state("STOP")),
    Case("HeadgateGroupStalled", *state("STALL")),
    Case("HeadgateGroupFallsBehind", *state("WARN")),
    Case("HeadgateCommitsGoBack", *counts(_REGRESSIONS), at=90),
    Case("HeadgateCommitsGoBack", {_REGRESSIONS: "_x80 1x40"}, {_REGRESSIONS: "1x120"}, at=90),
    Case(
        "HeadgateRecordsWillBeLost",
        *over('headgate_group_loss_seconds{cluster="c",group="g"}', 3600, 1e6),
    ),
    Case(
        "HeadgateNewGroupLags",
        {_PROBATION % "c": "1x60", _LAG % "c": "20000x60"},
        {_PROBATION % "c": "0x60", _LAG % "c": "20000x60"},
    ),
    Case(
        "HeadgateNewGroupLags",
        {_PROBATION % "c": "1x60", _LAG % "c": "20000x60"},
        {_PROBATION % "c": "1x60"},
    ),
    # A group of the same name on another cluster has the lag.
    Case(
        "HeadgateNewGroupLags",
        {_PROBATION % "c": "1x60", _LAG % "c": "20000x60", _LAG % "d": "20000x60"},
        {_PROBATION % "c": "1x60", _LAG % "c": "6000x60", _LAG % "d": "20000x60"},
    ),
    Case(
        "HeadgateColdReads",
        *over('headgate_group_heat{cluster="c",group="g",heat="cold"}', 1, 0),
    ),
    Case(
        "HeadgateRogueReader",
        *over('headgate_unexplained_bytes_per_second{cluster="c",topic="t"}', 2e6, 1e5),
    ),
    Case(
        "HeadgateIdleMembers",
        *over('headgate_group_idle_members{cluster="c",group="g"}', 2, 0),
        at=90,
    ),
)
