"""What a mirror was asked to do."""

from dataclasses import dataclass
from pathlib import Path

FOLLOW_LEASE_S = 300.0  # then what is followed is planned again
_AGAIN_S = 30.0


@dataclass(frozen=True, slots=True)
class MirrorRequest:
    """What was asked for. topics: names and globs; None = all that the configuration names.

    bytes_per_s: at most so much from each source broker.  retention_ms: of topics that are made.
    metrics: a Prometheus textfile.  again_s: how often what is skipped is looked at again.
    """

    cluster: str | None = None
    topics: str | None = None
    is_following: bool = False
    interval_s: float = 60.0
    lease_s: float = FOLLOW_LEASE_S
    bytes_per_s: float | None = None
    retention_ms: int = -1
    metrics: Path | None = None
    again_s: float = _AGAIN_S
