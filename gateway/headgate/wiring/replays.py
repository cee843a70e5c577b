"""Wires what the management port is asked of the second tier, where there is one."""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from headgate.config.settings import Settings
from headgate.edge.management.control_plane import Desks
from headgate.replays.none import NoSecondTier

SetGauge = Callable[[str, tuple[str, ...], float], None]


class Replaying(NamedTuple):
    """desks: for the pages.  follow: to be run as long as the gateway does."""

    desks: Desks
    follow: Callable[[], Coroutine[Any, Any, None]]


def replaying(settings: Callable[[], Settings], gauge: SetGauge) -> Replaying:
    """settings: those in force.  gauge: sets a figure of /metrics."""
    if not any(one.backfill for one in settings().clusters.values()):
        none = NoSecondTier()
        return Replaying(Desks(none, none, none), none.follow)
    # aiokafka, which a parent without a second tier need not have in memory
    from headgate.replays.desk import ReplayDesk
    from headgate.replays.second_tier import Offsets, SecondTiers
    from headgate.replays.snapshots import Snapshots
    from headgate.replays.sweeper import Sweeper

    tiers = SecondTiers(settings)
    desks = Desks(ReplayDesk(tiers, settings), Offsets(tiers), Snapshots(tiers))
    return Replaying(desks, Sweeper(tiers, gauge).follow)
