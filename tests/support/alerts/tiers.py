"""Cases of the alerts of tiers."""

from __future__ import annotations

from support.alerts.case import Case, counts

_LOST = 'headgate_mirror_lost_offsets_total{topic="t",partition="0",instance="%s"}'
_GAPS = 'headgate_mirror_gaps_total{topic="t",partition="0",instance="%s"}'
_FOREIGN = 'headgate_mirror_foreign_total{topic="t",partition="0",instance="%s"}'
_RUNNER = 'headgate_replay_runner{cluster="c",instance="%s"}'
_RUNNER_WROTE = 'headgate_replay_timestamp_seconds{cluster="c",instance="%s"}'
_MIRROR_WROTE = 'headgate_mirror_timestamp_seconds{cluster="c",instance="%s"}'
_LAG = 'headgate_mirror_lag_seconds{topic="t",partition="0",instance="%s"}'
_LEFT = 'headgate_mirror_lag_records{topic="t",partition="0",instance="%s"}'
_SKIPPED = 'headgate_mirror_topic_skipped{topic="t",reason="settings",instance="%s"}'
_OLDEST = 'headgate_replay_oldest_seconds{cluster="c",instance="%s"}'
_REMAINING = 'headgate_replay_remaining_offsets{cluster="c",instance="%s"}'
_FAILED = 'headgate_replays_failed_total{instance="%s"}'
_CLOCK = "0+60x120"  # a file that is written every minute
_MOVED = {_MIRROR_WROTE % "a": "0+60x10 600x60", _MIRROR_WROTE % "b": "_x11 660+60x60"}


def _of_map(alert: str, name: str) -> tuple[Case, ...]:
    """Cases of an alert about totals that are in the offset map, so a new pod continues them."""
    a, b = name % "a", name % "b"
    return (
        Case(alert, *counts(a), at=90),
        # Found when the topic is mirrored for the first time: the series is born with it.
        Case(alert, {a: "_x80 500x40"}, {a: "_x80 0x40"}, at=90),
        # A new pod has found more; a new pod has the total of the one before.
        Case(
            alert,
            {a: "500x60 _x60", b: "_x65 700x55"},
            {a: "500x60 _x60", b: "_x65 500x55"},
            at=90,
        ),
        # The same after hours without a mirror.
        Case(
            alert,
            {a: "500x60 _x240", b: "_x240 700x60"},
            {a: "500x60 _x240", b: "_x240 500x60"},
            at=260,
        ),
    )


CASES = (
    *_of_map("HeadgateMirrorLost", _LOST),
    *_of_map("HeadgateMirrorGap", _GAPS),
    *_of_map("HeadgateMirrorForeign", _FOREIGN),
    Case(
        "HeadgateMirrorSilent",
        {_MIRROR_WROTE % "a": "0+60x20 1200x60"},
        {_MIRROR_WROTE % "a": _CLOCK},
    ),
    # Gone; replaced by a new pod.
    Case(
        "HeadgateMirrorSilent",
        {_MIRROR_WROTE % "a": "0+60x15 _x60"},
        {_MIRROR_WROTE % "a": "0+60x15 _x60", _MIRROR_WROTE % "b": "_x17 1020+60x60"},
    ),
    # Two hosts, both dead; one of them has taken over from the other, whose file stays.
    Case(
        "HeadgateMirrorSilent",
        {_MIRROR_WROTE % "a": "0+60x15 900x60", _MIRROR_WROTE % "b": "_x17 1020x60"},
        {_MIRROR_WROTE % "a": "0+60x15 900x60", _MIRROR_WROTE % "b": "_x17 1020+60x60"},
    ),
    Case(
        "HeadgateMirrorBehind",
        {_LAG % "a": "180x60", _MIRROR_WROTE % "a": _CLOCK},
        {_LAG % "a": "70x60", _MIRROR_WROTE % "a": _CLOCK},
    ),
    # The age of the records that are left cannot be read: they are left for as long as it fires.
    Case(
        "HeadgateMirrorBehind",
        {_LEFT % "a": "4333x60", _MIRROR_WROTE % "a": _CLOCK},
        {_LEFT % "a": "4333x60", _LAG % "a": "_x4 2x60", _MIRROR_WROTE % "a": _CLOCK},
    ),
    Case(
        "HeadgateMirrorSkips",
        {_SKIPPED % "a": "1x60", _MIRROR_WROTE % "a": _CLOCK},
        {_SKIPPED % "a": "1x5 _x55", _MIRROR_WROTE % "a": _CLOCK},
    ),
    # The file of a mirror that is dead says the same for good; another host has taken over.
    Case(
        "HeadgateMirrorBehind",
        {**_MOVED, _LAG % "b": "_x11 180x60"},
        {**_MOVED, _LAG % "a": "180x60", _LAG % "b": "_x11 2x60"},
    ),
    Case(
        "HeadgateMirrorSkips",
        {**_MOVED, _SKIPPED % "b": "_x11 1x60"},
        {**_MOVED, _SKIPPED % "a": "1x60"},
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
        {_OLDEST % "a": "4000+60x90", _REMAINING % "a": "500x90", _RUNNER_WROTE % "a": _CLOCK},
        {_OLDEST % "a": "4000+60x90", _REMAINING % "a": "5000-10x90", _RUNNER_WROTE % "a": _CLOCK},
        at=60,
    ),
    # The file of a dead runner, beside one that has taken over.
    Case(
        "HeadgateReplayStuck",
        {_OLDEST % "b": "4000+60x90", _REMAINING % "b": "500x90", _RUNNER_WROTE % "b": _CLOCK},
        {_OLDEST % "a": "4000x90", _REMAINING % "a": "500x90", _RUNNER_WROTE % "a": "0x90"},
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
