"""The settings of replays: what one service may ask for, and what a runner may take."""

from dataclasses import dataclass
from typing import Annotated

from headgate.core.option import about

_YEAR_S = 365 * 86_400


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """Quotas of replays, and how long results are kept."""

    active_max: Annotated[
        int,
        about(
            "Replays to a topic of their own that one producer may have at a time, from asking "
            "until their topic is deleted; more is answered 429.",
            minimum=1,
            maximum=10_000,
        ),
    ] = 4
    mirror_wait_ms: Annotated[
        int,
        about(
            "How long a new replay waits for the mirror to copy the end of what is asked for, in "
            "ms, before it is refused; 0 refuses at once.",
            minimum=0,
            maximum=20_000,
        ),
    ] = 10_000
    records_max: Annotated[
        int,
        about(
            "The most records (before the filter) that one replay may copy.",
            minimum=1,
            maximum=1_000_000_000_000,
        ),
    ] = 100_000_000
    ttl_s: Annotated[
        int,
        about(
            "How long a replay's result is kept once it is ready, unless it asks for less.",
            minimum=1,
            maximum=_YEAR_S,
        ),
    ] = 604_800
    keep_s: Annotated[
        int,
        about(
            "How long a finished replay is still listed.",
            minimum=1,
            maximum=_YEAR_S,
        ),
    ] = 604_800
    bytes_per_s: Annotated[
        int | None,
        about(
            "The most that a replay reads a second from a broker, compressed as it is there, "
            "unless it asks for less.",
            minimum=1,
            maximum=1_099_511_627_776,
            example="52428800",
        ),
    ] = None
    cold_bytes_per_s: Annotated[
        int,
        about(
            "The most that is read a second from an ingest tier for allow_cold.",
            minimum=1,
            maximum=1_099_511_627_776,
        ),
    ] = 10_485_760
