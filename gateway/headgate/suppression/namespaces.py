"""What this process knows of each namespace in Redis."""

from collections.abc import Iterable, Sequence

from headgate.core.suppression import Scope

_SILENCE_S = 1.0


class Namespaces:
    """Remembered nonces, when each namespace was last talked to, and which must be dropped.

    to_talk: ask for their nonces with the next call.  to_drop: delete their incarnations.
    """

    __slots__ = ("_nonces", "_opened", "_talked", "to_drop", "to_talk")

    def __init__(self) -> None:
        self._nonces: dict[Scope, bytes] = {}
        self._opened: set[Scope] = set()
        self._talked: dict[Scope, float] = {}
        self.to_talk: set[Scope] = set()
        self.to_drop: set[Scope] = set()

    def answered(
        self, scopes: Sequence[Scope], nonces: Sequence[bytes], now_s: float
    ) -> set[Scope]:
        """Note the nonces of a reply; return the namespaces that are others than before."""
        changed = set()
        for scope, nonce in zip(scopes, nonces, strict=True):
            self._talked[scope] = now_s
            known = self._nonces.get(scope)
            if known != nonce:
                self._nonces[scope] = nonce
                if known is not None:
                    changed.add(scope)
        return changed

    def talk_to(self, scopes: Iterable[Scope], since_s: float) -> None:
        """Plan to talk to those that were not talked to since then."""
        for scope in scopes:
            if self._talked.get(scope, since_s) <= since_s:
                self.to_talk.add(scope)

    def stay_in_touch(self, now_s: float) -> None:
        """Plan to talk to any namespace, so that even an idle process notices a dead Redis."""
        if self._talked and now_s - max(self._talked.values()) >= _SILENCE_S:
            self.to_talk.add(next(iter(self._talked)))

    def open(self, scope: Scope) -> None:
        """Talk to a namespace that is in force from now on."""
        if scope not in self._opened:
            self._opened.add(scope)
            self.to_talk.add(scope)

    def open_again(self) -> None:
        """Redis may have lost them: talk to all at once, so that no event has to be the first."""
        self.to_talk |= self._opened

    def forget(self, scope: Scope) -> None:
        """No topic has it any more."""
        self._opened.discard(scope)
        self._nonces.pop(scope, None)
        self._talked.pop(scope, None)
        self.to_talk.discard(scope)
