"""What is answered where no cluster has a backfill tier. Imports nothing of Kafka."""

from collections.abc import Sequence
from typing import Any, NoReturn

from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, brief
from headgate.core.replays.replay import Control

Rows = tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]]


def _refuse() -> NoReturn:
    detail = "no cluster has a backfill tier: set clusters.<ingest>.backfill, and mirror"
    raise Refused(Failure(Reason.NOT_COVERED, detail))


class NoSecondTier:
    """Implements the services of replays, offsets and snapshots."""

    async def create(
        self, _request_body: Any, _caller: str, _idempotency_key: str | None
    ) -> tuple[dict[str, Any], bool]:
        _refuse()

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

    async def follow(self) -> None:
        """There is nothing to look after."""
