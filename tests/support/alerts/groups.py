"""Cases of the alerts of groups."""

from __future__ import annotations

from support.alerts.case import Case, counts, over, state

_REGRESSIONS = 'headgate_commit_regressions_total{group="g",topic="t"}'
_PROBATION, _LAG = 'headgate_group_probation{group="g"}', 'headgate_group_lag{group="g",topic="t"}'

CASES = (
    Case("HeadgateStuckCommit", *over('headgate_group_stuck_commits{group="g"}', 1, 0)),
    Case("HeadgateGroupRewound", *state("REWIND")),
    Case("HeadgateGroupStopped", *state("STOP")),
    Case("HeadgateGroupStalled", *state("STALL")),
    Case("HeadgateGroupFallsBehind", *state("WARN")),
    Case("HeadgateCommitsGoBack", *counts(_REGRESSIONS), at=90),
    Case("HeadgateCommitsGoBack", {_REGRESSIONS: "_x80 1x40"}, {_REGRESSIONS: "1x120"}, at=90),
    Case("HeadgateRecordsWillBeLost", *over('headgate_group_loss_seconds{group="g"}', 3600, 1e6)),
    Case(
        "HeadgateNewGroupLags",
        {_PROBATION: "1x60", _LAG: "20000x60"},
        {_PROBATION: "0x60", _LAG: "20000x60"},
    ),
    Case("HeadgateNewGroupLags", {_PROBATION: "1x60", _LAG: "20000x60"}, {_PROBATION: "1x60"}),
    Case(
        "HeadgateColdReads",
        *over('headgate_group_heat{group="g",heat="cold"}', 1, 0),
    ),
    Case(
        "HeadgateRogueReader",
        *over('headgate_unexplained_bytes_per_second{cluster="c",topic="t"}', 2e6, 1e5),
    ),
    Case("HeadgateIdleMembers", *over('headgate_group_idle_members{group="g"}', 2, 0), at=90),
)
