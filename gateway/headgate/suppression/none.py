"""Suppression where no topic asks for it: nothing is reserved, nothing settled."""

from collections.abc import Sequence

from headgate.backends.base import Verdicts
from headgate.core.publish import Publish
from headgate.core.suppression.protocol import Scope


class Unsuppressed:
    """Implements `base.Suppression` without a store."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts

    def reserve(self, publish: Publish) -> None:
        self._verdicts.publish(publish)

    def passes(self, scope: Scope, count: int) -> bool:
        """Nobody needs to know."""
        return True

    def hold(self, scope: Scope) -> None:
        """Nobody needs to know."""

    def release(self, scope: Scope) -> None:
        """Nobody needs to know."""

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """Nothing was reserved."""

    def ended(self, publish: Publish, certain: bool) -> None:
        """Nothing was reserved."""
