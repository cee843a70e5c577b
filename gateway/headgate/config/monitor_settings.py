"""The settings of `headgate monitor`."""

from dataclasses import dataclass
from typing import Annotated

from headgate.core.option import about

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """`headgate monitor`: how it judges consumer groups, and where its pages are."""

    port: Annotated[
        int,
        about(
            "Where `headgate monitor` answers /v1/groups, /metrics, /live and /ready, at "
            "http.host.",
            minimum=1,
            maximum=65_535,
        ),
    ] = 9096
    url: Annotated[
        str | None,
        about(
            "Where gateways find the monitor, for their own /v1/groups; none = on the same host, "
            "at monitor.port.",
            example='"http://monitor.internal:9096"',
        ),
    ] = None
    interval_ms: Annotated[
        int, about("The time between two polls of all groups.", minimum=100, maximum=3_600_000)
    ] = 10_000
    window_looks: Annotated[
        int,
        about(
            "Polls that found a new commit and no less lag, in a row, until a group is in WARN.",
            minimum=3,
            maximum=1_000,
        ),
    ] = 10
    patience_ms: Annotated[
        int,
        about(
            "How long there may be work and no new commit until a group is in STALL or STOP; "
            "twice what it usually takes, where that is longer, up to ten times this.",
            minimum=100,
            maximum=_DAY_MS,
        ),
    ] = 60_000
    allowed_lag: Annotated[
        int,
        about("Records that may wait in a partition without being lag.", minimum=0, maximum=10**12),
    ] = 0
    horizon_ms: Annotated[
        int,
        about(
            "How old a record is that is about to leave the brokers' page cache: memory for it, "
            "divided by bytes written a millisecond.",
            minimum=1_000,
            maximum=30 * _DAY_MS,
        ),
    ] = 3_600_000
    probation_ms: Annotated[
        int,
        about(
            "How long a new group must keep up without a break until it is admitted.",
            minimum=1_000,
            maximum=30 * _DAY_MS,
        ),
    ] = _DAY_MS
    probation_lag: Annotated[
        int, about("Records of lag with which a group still keeps up.", minimum=0, maximum=10**12)
    ] = 10_000
    rogue_bytes_per_s: Annotated[
        int,
        about(
            "Bytes a second of a topic that may leave the brokers without a group that explains "
            "them; needs clusters.NAME.metrics_urls.",
            minimum=1,
            maximum=10**15,
        ),
    ] = 1_048_576
    state_file: Annotated[
        str | None,
        about(
            "Where probation is kept over a restart; without it every group that is there at the "
            "start counts as admitted.",
            example='"/var/lib/headgate/monitor.json"',
        ),
    ] = None
