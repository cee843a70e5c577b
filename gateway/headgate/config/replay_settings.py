"""The settings of replays: what one service may ask for, and what a runner may take."""

from dataclasses import dataclass
from typing import Annotated

from headgate.core.option import about

_YEAR_S = 365 * 86_400


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """Quotas of replays, and the lifetime of their results."""

    active_max: Annotated[
        int,
        about(
            "Replays to a separate topic that one producer may have at a time, from the request "
            "until the topic is deleted. More are answered 429.",
            minimum=1,
            maximum=10_000,
        ),
    ] = 4
    mirror_wait_ms: Annotated[
        int,
        about(
            "Longest wait of a new replay, in ms, until the mirror has copied the end of the "
            "requested range. After it the replay is refused. 0 refuses at once.",
            minimum=0,
            maximum=20_000,
        ),
    ] = 10_000
    records_max: Annotated[
        int,
        about(
            "Most records (before the filter) that one replay may copy.",
            minimum=1,
            maximum=1_000_000_000_000,
        ),
    ] = 100_000_000
    ttl_s: Annotated[
        int,
        about(
            "Lifetime of a replay's finished result, unless the replay asks for less.",
            minimum=1,
            maximum=_YEAR_S,
        ),
    ] = 604_800
    keep_s: Annotated[
        int,
        about(
            "Time for which a finished replay is listed.",
            minimum=1,
            maximum=_YEAR_S,
        ),
    ] = 604_800
    bytes_per_s: Annotated[
        int | None,
        about(
            "Most bytes per second, as compressed on the broker, that a replay reads from a "
            "broker, unless it asks for less.",
            minimum=1,
            maximum=1_099_511_627_776,
            example="52428800",
        ),
    ] = None
    cold_bytes_per_s: Annotated[
        int,
        about(
            "Most bytes per second read from an ingest tier for allow_cold.",
            minimum=1,
            maximum=1_099_511_627_776,
        ),
    ] = 10_485_760
