"""Cases of the alerts of tiers."""

from __future__ import annotations

from support.alerts.case import Case, counts, over

_LOST = 'headgate_mirror_lost_offsets_total{topic="t",partition="0"}'
_GAPS = 'headgate_mirror_gaps_total{topic="t",partition="0"}'
_FOREIGN = 'headgate_mirror_foreign_total{topic="t",partition="0"}'
_RUNNER = 'headgate_replay_runner{cluster="c",instance="%s"}'
_RUNNER_WROTE = 'headgate_replay_timestamp_seconds{cluster="c",instance="%s"}'
_MIRROR_WROTE = 'headgate_mirror_timestamp_seconds{cluster="c",instance="a"}'
_OLDEST = 'headgate_replay_oldest_seconds{cluster="c"}'
_REMAINING = 'headgate_replay_remaining_offsets{cluster="c"}'
_FAILED = 'headgate_replays_failed_total{instance="%s"}'
_CLOCK = "0+60x120"  # a file that is written every minute

CASES = (
    Case("HeadgateMirrorLost", *counts(_LOST), at=90),
    Case("HeadgateMirrorGap", *counts(_GAPS), at=90),
    Case("HeadgateMirrorForeign", *counts(_FOREIGN), at=90),
    # Found when the topic was mirrored for the first time: the series is born with it.
    Case("HeadgateMirrorForeign", {_FOREIGN: "_x80 1x40"}, {_FOREIGN: "0x120"}, at=90),
    Case("HeadgateMirrorSilent", {_MIRROR_WROTE: "0+60x20 1200x60"}, {_MIRROR_WROTE: _CLOCK}),
    Case("HeadgateMirrorSilent", {_MIRROR_WROTE: "0+60x15 _x60"}, {_MIRROR_WROTE: _CLOCK}),
    Case(
        "HeadgateMirrorBehind",
        *over('headgate_mirror_lag_seconds{topic="t",partition="0"}', 180, 70),
    ),
    Case(
        "HeadgateMirrorSkips",
        {'headgate_mirror_topic_skipped{topic="t",reason="settings"}': "1x60"},
        {'headgate_mirror_topic_skipped{topic="t",reason="settings"}': "1x5 _x55"},
    ),
    # Another process has the lease, and that is the only one.
    Case(
        "HeadgateNoReplayRunner",
        {_RUNNER % "a": "0x60", _RUNNER_WROTE % "a": _CLOCK},
        {_RUNNER % "a": "1x60", _RUNNER_WROTE % "a": _CLOCK},
    ),
    # Dead: its file says 1 for good. Another runner has taken over, and the dead one does no harm.
    Case(
        "HeadgateNoReplayRunner",
        {_RUNNER % "a": "1x60", _RUNNER_WROTE % "a": "0+60x15 900x60"},
        {
            _RUNNER % "a": "1x60",
            _RUNNER_WROTE % "a": "0+60x15 900x60",
            _RUNNER % "b": "0x15 1x60",
            _RUNNER_WROTE % "b": _CLOCK,
        },
    ),
    # Gone with its host, or never there.
    Case(
        "HeadgateNoReplayRunner", {_RUNNER % "a": "1x15 _x60", _RUNNER_WROTE % "a": "0+60x15"}, {}
    ),
    Case(
        "HeadgateReplayStuck",
        {_OLDEST: "4000+60x90", _REMAINING: "500x90"},
        {_OLDEST: "4000+60x90", _REMAINING: "5000-10x90"},
        at=60,
    ),
    Case("HeadgateReplayFailed", {_FAILED % "a": "0x70 1x20"}, {_FAILED % "a": "2x5 3x90"}, at=80),
    # Another gateway was started since, and has seen nothing of it.
    Case(
        "HeadgateReplayFailed",
        {_FAILED % "a": "2x70 3x20", _FAILED % "b": "_x75 0x20"},
        {_FAILED % "a": "2x70 _x20", _FAILED % "b": "_x75 0x20"},
        at=80,
    ),
)
