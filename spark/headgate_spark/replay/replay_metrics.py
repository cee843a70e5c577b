"""What a runner has copied and how far its replays are, as a Prometheus textfile.

A replay's id is no label: few are under way at once, but each leaves its series behind, and
`GET /v1/replays/ID` shows each of them.
"""

from collections import Counter
from collections.abc import Iterable

from headgate.core.replays.replay import FINISHED, Control, Replay, ReplayState, created_ms
from headgate.core.replays.spec import ReplayMode
from headgate_spark.job.exposition import Metric, Textfile, exposed, written
from headgate_spark.replay.replay_progress import remaining

_PAUSED = "paused"
_NOT_UNDER_WAY = {*FINISHED, ReplayState.READY, _PAUSED}
_HELP = {
    "replay_runner": "1 where this process is the runner, 0 where another one is.",
    "replay_records_total": "Records that this process has copied.",
    "replay_bytes_total": "Their keys' and values' bytes.",
    "replay_copies": "Replays of mode topic that the registry has, by state.",
    "replay_remaining_offsets": "Offsets that replays under way have still to read.",
    "replay_oldest_seconds": "How long ago the oldest replay under way was asked for; 0: none is.",
}

Labels = tuple[tuple[str, str], ...]
Series = dict[tuple[str, Labels], float]


class ReplayMetrics:
    """Of all backfill clusters of this process. file: None = nothing is written."""

    def __init__(self, file: Textfile | None) -> None:
        self._file = file
        self._totals: Series = {}
        self._now: dict[str, Series] = {}

    def copied(self, cluster: str, records: int, size: int) -> None:
        """A chunk is there."""
        for name, value in (("replay_records_total", records), ("replay_bytes_total", size)):
            place = (name, (("cluster", cluster),))
            self._totals[place] = self._totals.get(place, 0) + value

    def tell(self, cluster: str, replays: Iterable[Replay] | None, now_ms: int) -> None:
        """Rewrite the file. replays: the registry's; None: another process has the lease."""
        self.copied(cluster, 0, 0)
        self._now[cluster] = {("replay_runner", (("cluster", cluster),)): 0}
        if replays is not None:
            self._now[cluster] = readings(cluster, replays, now_ms)
        if self._file is not None:
            series = dict(self._totals)
            for some in self._now.values():
                series |= some
            self._file.write(_text(series, self._now, now_ms / 1000))


def readings(cluster: str, replays: Iterable[Replay], now_ms: int) -> Series:
    """What the registry says of one cluster's replays, those of other modes left out."""
    mine = [replay for replay in replays if (replay.spec or {}).get("mode") == ReplayMode.TOPIC]
    states = Counter(_state(one) for one in mine)
    active = [one for one in mine if _state(one) not in _NOT_UNDER_WAY]
    oldest_ms = min(map(created_ms, active), default=now_ms)
    labels = (("cluster", cluster),)
    found: Series = {
        ("replay_runner", labels): 1,
        ("replay_remaining_offsets", labels): sum(
            remaining((one.spec or {}).get("plan"), one.status) for one in active
        ),
        ("replay_oldest_seconds", labels): max(0.0, (now_ms - oldest_ms) / 1000),
    }
    for state in (*ReplayState, _PAUSED):
        found["replay_copies", (*labels, ("state", state))] = states[state]
    return found


def _state(replay: Replay) -> str:
    is_paused = replay.control is Control.PAUSE and replay.state not in {
        *FINISHED,
        ReplayState.READY,
    }
    return _PAUSED if is_paused else replay.state


def _text(series: Series, clusters: Iterable[str], now_s: float) -> str:
    metrics = [
        Metric(
            f"headgate_{name}",
            "counter" if name.endswith("_total") else "gauge",
            about,
            [
                (dict(labels), value)
                for (its, labels), value in sorted(series.items())
                if its == name
            ],
        )
        for name, about in _HELP.items()
    ]
    return exposed([*metrics, written("replay", clusters, now_s)])
