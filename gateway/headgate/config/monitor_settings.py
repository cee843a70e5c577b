"""The settings of `headgate monitor`."""

from dataclasses import dataclass
from typing import Annotated

from headgate.core.option import about

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """`headgate monitor`: its port, and the thresholds for consumer groups."""

    port: Annotated[
        int,
        about(
            "Port on http.host where `headgate monitor` serves /v1/groups, /metrics, /live and "
            "/ready.",
            minimum=1,
            maximum=65_535,
        ),
    ] = 9096
    url: Annotated[
        str | None,
        about(
            "URL of the monitor, which gateways need for their own /v1/groups. Default: the same "
            "host, at monitor.port.",
            example='"http://monitor.internal:9096"',
        ),
    ] = None
    interval_ms: Annotated[
        int, about("Interval between two polls of all groups.", minimum=100, maximum=3_600_000)
    ] = 10_000
    window_looks: Annotated[
        int,
        about(
            "Number of consecutive polls with a new commit and no decrease in lag after which a "
            "group is in WARN.",
            minimum=3,
            maximum=1_000,
        ),
    ] = 10
    patience_ms: Annotated[
        int,
        about(
            "Time with lag and without a new commit after which a group is in STALL or STOP. A "
            "group that usually takes longer gets twice its usual time, up to ten times this "
            "value.",
            minimum=100,
            maximum=_DAY_MS,
        ),
    ] = 60_000
    allowed_lag: Annotated[
        int,
        about("Records in a partition that do not count as lag.", minimum=0, maximum=10**12),
    ] = 0
    horizon_ms: Annotated[
        int,
        about(
            "Age at which a record leaves the brokers' page cache: memory for the cache divided "
            "by bytes written per millisecond.",
            minimum=1_000,
            maximum=30 * _DAY_MS,
        ),
    ] = 3_600_000
    probation_ms: Annotated[
        int,
        about(
            "Time for which a new group must keep up without interruption before it is admitted.",
            minimum=1_000,
            maximum=30 * _DAY_MS,
        ),
    ] = _DAY_MS
    probation_lag: Annotated[
        int, about("Largest lag, in records, of a group that keeps up.", minimum=0, maximum=10**12)
    ] = 10_000
    rogue_bytes_per_s: Annotated[
        int,
        about(
            "Bytes per second of a topic that may be read without a consumer group that explains "
            "them. Needs clusters.NAME.metrics_urls.",
            minimum=1,
            maximum=10**15,
        ),
    ] = 1_048_576
    state_file: Annotated[
        str | None,
        about(
            "File that keeps probation over a restart. Without it, every group that exists at the "
            "start counts as admitted.",
            example='"/var/lib/headgate/monitor.json"',
        ),
    ] = None
