"""Wires what the management port is asked of the second tier, where there is one."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from headgate.config.settings import Settings
from headgate.core.installation import Happening
from headgate.edge.management.control_plane import Services
from headgate.replays.none import NoSecondTier

if TYPE_CHECKING:
    from headgate.replays.sweeper import ReplayFigures

Note = Callable[[Happening], None]


class Replaying(NamedTuple):
    """services: for the pages.  follow: to be run as long as the gateway does."""

    services: Services
    follow: Callable[[], Coroutine[Any, Any, None]]


def replaying(settings: Callable[[], Settings], figures: "ReplayFigures", note: Note) -> Replaying:
    """settings: those in force.  figures: of this process.  note: of the installation log."""
    if not any(cluster.backfill for cluster in settings().clusters.values()):
        none = NoSecondTier()
        return Replaying(Services(none, none, none), none.follow)
    # aiokafka, which a parent without a second tier need not have in memory
    from headgate.replays.replay_service import ReplayService
    from headgate.replays.second_tier import Offsets, SecondTiers
    from headgate.replays.snapshots import Snapshots
    from headgate.replays.sweeper import Sweeper

    tiers = SecondTiers(settings)
    services = Services(ReplayService(tiers, settings), Offsets(tiers), Snapshots(tiers))
    return Replaying(services, Sweeper(tiers, figures, note).follow)
