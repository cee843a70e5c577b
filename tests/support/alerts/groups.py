"""Cases of the alerts of groups."""

from __future__ import annotations

from support.alerts.case import Case, counts, over, state

_REGRESSIONS = 'headgate_commit_regressions_total{cluster="c",group="g",topic="t"}'
_PROBATION = 'headgate_group_probation{cluster="%s",group="g"}'
_STATE = 'headgate_group_state{cluster="c",group="g",state="STOP",instance="%s"}'
_LAG = 'headgate_group_lag{cluster="%s",group="g",topic="t"}'

CASES = (
    Case("HeadgateStuckCommit", *over('headgate_group_stuck_commits{cluster="c",group="g"}', 1, 0)),
    Case("HeadgateGroupRewound", *state("REWIND")),
    Case("HeadgateGroupStopped", *state("STOP")),
    # A restart of the monitor, as another pod, which has not judged yet; resolved 15 minutes ago.
    Case(
        "HeadgateGroupStopped",
        {_STATE % "a": "1x20 _x40", _STATE % "b": "_x21 0x3 1x60"},
        {_STATE % "a": "1x12 0x40"},
        at=27,
    ),
    # Two monitors of one group: one alert.
    Case(
        "HeadgateGroupStopped",
        {_STATE % "a": "1x60", _STATE % "b": "1x60"},
        {_STATE % "a": "0x60", _STATE % "b": "0x60"},
    ),
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
