"""The second tier as the gateway's parent composes it: its services, and the sweeper.

Imports nothing of Kafka until a cluster has a backfill tier: a parent without one need not have
aiokafka in memory.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from headgate.config.settings import Settings
from headgate.model.installation import NewEntry
from headgate.model.outcome import Failure, Reason, Refused, brief
from headgate.replays.registry import Control, WaitingReplay

if TYPE_CHECKING:
    from headgate.metrics.fleet import Fleet
    from headgate.replays.offsets import Offsets, Snapshots
    from headgate.replays.service import ReplayService

Rows = tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]]


async def _nothing_to_follow() -> None:
    """Return at once: there is nothing to look after."""


class SecondTier(NamedTuple):
    """The services of the management port, and a task.

    Attributes:
        follow: Looks after the replays, as long as the gateway runs.
    """

    replays: "ReplayService | NoSecondTier"
    offsets: "Offsets | NoSecondTier"
    snapshots: "Snapshots | NoSecondTier"
    follow: Callable[[], Coroutine[Any, Any, None]] = _nothing_to_follow


def second_tier(
    settings: Callable[[], Settings],
    figures: "Fleet",
    note: Callable[[NewEntry], None],
) -> SecondTier:
    """Compose the second tier.

    Args:
        settings: Returns the settings in force.
        figures: This process's figures on /metrics.
        note: Writes to the installation log.
    """
    if not any(cluster.backfill for cluster in settings().clusters.values()):
        none = NoSecondTier()
        return SecondTier(none, none, none)
    from headgate.replays.offsets import Offsets, Snapshots
    from headgate.replays.service import ReplayService, Sweeper
    from headgate.replays.tiers import SecondTiers

    tiers = SecondTiers(settings)
    return SecondTier(
        ReplayService(tiers, settings),
        Offsets(tiers),
        Snapshots(tiers),
        Sweeper(tiers, figures, note).follow,
    )


class NoSecondTier:
    """The services of a gateway without a backfill tier."""

    async def create(
        self, _request_body: Any, _caller: str, _idempotency_key: str | None
    ) -> tuple[dict[str, Any], bool]:
        _refuse()

    def waiting(self) -> Sequence[WaitingReplay]:
        return ()

    async def list(self, _topic: str | None, _state: str | None) -> Rows:
        return [], []

    async def show(self, replay_id: str) -> dict[str, Any]:
        raise Refused(Failure(Reason.NOT_FOUND, f"no replay {brief(replay_id)}"))

    async def control(self, replay_id: str, _wanted: Control) -> dict[str, Any]:
        return await self.show(replay_id)

    async def translate(self, _request_body: Any) -> dict[str, Any]:
        _refuse()

    async def coverage(self, _topic: str) -> dict[str, Any]:
        _refuse()

    async def all(self) -> Rows:
        return [], []

    async def take(self, _request_body: Any, _caller: str) -> tuple[dict[str, Any], bool]:
        _refuse()


def _refuse() -> NoReturn:
    detail = "no cluster has a backfill tier: set clusters.<ingest>.backfill, and mirror"
    raise Refused(Failure(Reason.NOT_COVERED, detail))
