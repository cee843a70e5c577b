"""The publishes of this process whose end is not known, and whether Redis knows of each."""

from collections.abc import Iterable, Iterator

from headgate.core.publish import Publish
from headgate.core.suppression import Scope


class UnderWay:
    """Every publish from its verdict to its settlement, by token.

    Two generations make renewal cheap: a publish enters the young one, and each `rotate` renews
    what is left of the one before, so nothing is done for the many that end in between.
    unregistered: those that Redis may not know; they are REGISTERed before the next claim.
    unknown: ended for their client, but they may yet land; kept until their token has expired.
    """

    __slots__ = ("_old", "_unknown", "_unknown_max", "_young", "unregistered")

    def __init__(self, unknown_max: int) -> None:
        self._young: dict[bytes, Publish] = {}
        self._old: dict[bytes, Publish] = {}
        self._unknown: dict[bytes, tuple[Publish, float]] = {}
        self._unknown_max = unknown_max
        self.unregistered: dict[bytes, Publish] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old) + len(self._unknown)

    def __iter__(self) -> Iterator[Publish]:
        yield from self._old.values()
        yield from self._young.values()
        for publish, _ in self._unknown.values():
            yield publish

    def add(self, publish: Publish) -> None:
        """It has a token and goes to its lane now."""
        self._young[publish.token] = publish

    def remove(self, token: bytes) -> None:
        """Its end is known (or it never began)."""
        if self._young.pop(token, None) is None and self._old.pop(token, None) is None:
            self._unknown.pop(token, None)
        if self.unregistered:
            self.unregistered.pop(token, None)

    def leave_unknown(self, publish: Publish, until_s: float) -> None:
        """It may land until then (s). Registered once more, so that its token lives as long.

        Beyond the bound the oldest is no longer registered again when Redis loses its state: as
        with what a dead process left on the wire, the quarantine has to outlast it.
        """
        self.remove(publish.token)
        if len(self._unknown) >= self._unknown_max:
            self._unknown.pop(next(iter(self._unknown)))
        self._unknown[publish.token] = (publish, until_s)
        self.unregistered[publish.token] = publish

    def rotate(self, now_s: float) -> None:
        """Renew what was here at the last rotation already; forget unknown ones that expired."""
        self.unregistered.update(self._old)
        self._young.update(self._old)
        self._old, self._young = self._young, {}
        gone = [token for token, (_, until_s) in self._unknown.items() if until_s <= now_s]
        for token in gone:
            self.remove(token)

    def register_again(self, scopes: Iterable[Scope] | None = None) -> None:
        """Redis may have lost them: all, or those of some namespaces."""
        wanted = None if scopes is None else set(scopes)
        for publish in self:
            if wanted is None or publish.scope in wanted:
                self.unregistered[publish.token] = publish

    def scopes(self) -> set[Scope]:
        """Namespaces with anything under way."""
        return {publish.scope for publish in self}
