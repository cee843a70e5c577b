"""What this process knows of each namespace in Redis."""

from collections.abc import Iterable, Sequence

from headgate.core.suppression.layout import Agreement
from headgate.core.suppression.protocol import NamespaceState, Scope

_SILENCE_S = 1.0


class Namespaces:
    """Remembered nonces, when each namespace was last talked to, and which need a new incarnation.

    to_talk: ask for their state with the next call.  to_drop: forget what is known of their keys.
    to_announce: tell that records are written there without a reservation.
    opened: of topics that are compared here.  passing: of those whose events pass without being
    reserved, or did so not long ago.
    doubted: what is known of them may be older than what gateways with other servers wrote.
    """

    __slots__ = (
        "_nonces",
        "_opens_s",
        "_talked",
        "doubted",
        "opened",
        "passing",
        "to_announce",
        "to_drop",
        "to_talk",
    )

    def __init__(self) -> None:
        self._nonces: dict[Scope, bytes] = {}
        self._opens_s: dict[Scope, float] = {}
        self._talked: dict[Scope, float] = {}
        self.passing: set[Scope] = set()
        self.opened: set[Scope] = set()
        self.doubted: set[Scope] = set()
        self.to_talk: set[Scope] = set()
        self.to_drop: set[Scope] = set()
        self.to_announce: set[Scope] = set()

    def answered(
        self,
        scopes: Sequence[Scope],
        states: Sequence[NamespaceState],
        redis_ms: float,
        now_s: float,
    ) -> set[Scope]:
        """Note the states of a reply; return the namespaces that are others than before.

        redis_ms: its clock.
        """
        changed = set()
        for scope, state in zip(scopes, states, strict=True):
            self._talked[scope] = now_s
            self._opens_s[scope] = now_s + (state.opens_ms - redis_ms) / 1000
            known = self._nonces.get(scope)
            if known != state.nonce:
                self._nonces[scope] = state.nonce
                if known is not None:
                    changed.add(scope)
        return changed

    def judge(
        self,
        scopes: Sequence[Scope],
        born_s: Sequence[float],
        agreement: Agreement,
        now_s: float,
    ) -> set[Scope]:
        """Return those of a reply whose `unchanged` is not to be believed; plan to begin those anew
        that have to. born_s: when each was born, not too late."""
        found = set()
        for scope, born in zip(scopes, born_s, strict=True):
            if agreement.begins_anew(born, now_s):
                self.to_drop.add(scope)
            if agreement.believes(born, now_s):
                self.doubted.discard(scope)
            else:
                found.add(scope)
        self.doubted |= found
        return found

    def opens_s(self, scope: Scope) -> float | None:
        """When (s) it suppresses, if nothing happens before; None: not known yet."""
        return self._opens_s.get(scope)

    def talk_to(self, scopes: Iterable[Scope], since_s: float) -> None:
        """Plan to talk to those that were not talked to since then."""
        for scope in scopes:
            if self._talked.get(scope, since_s) <= since_s:
                self.to_talk.add(scope)

    def check_doubted(self, now_s: float) -> None:
        """Plan to look again at those that were not believed."""
        self.talk_to(self.doubted, now_s - _SILENCE_S)

    def stay_in_touch(self, now_s: float) -> None:
        """Plan to talk to any namespace, so that even an idle process notices a dead Redis."""
        if self._talked and now_s - max(self._talked.values()) >= _SILENCE_S:
            self.to_talk.add(next(iter(self._talked)))

    def open(self, scope: Scope) -> None:
        """Talk to a namespace whose topic is compared here from now on."""
        if scope not in self.opened:
            self.opened.add(scope)
            self.to_talk.add(scope)

    def shut(self, scope: Scope) -> None:
        """Its topic is compared here no more."""
        self.opened.discard(scope)

    def open_again(self) -> None:
        """Redis may have lost them: talk to all at once, so that no event has to be the first."""
        self.to_talk |= self.opened
        self.to_announce |= self.passing

    def announce(self, scope: Scope) -> None:
        """Records go past suppression into this topic: announce that soon, and go on doing so."""
        self.passing.add(scope)
        self.to_announce.add(scope)

    def announced(self, scopes: Iterable[Scope], until_s: float) -> None:
        """A call said so; its word holds until then."""
        for scope in scopes:
            scope.free_until_s = until_s

    def renew(self, now_s: float, lease_s: float, kept: set[Scope]) -> None:
        """Plan to announce again what ends soon, as long as anything that passed is in flight.

        kept: namespaces to announce for another reason.
        """
        for scope in list(self.passing):
            is_done = not scope.unreserved.count and scope not in kept
            if is_done and now_s - scope.passed_s > lease_s:
                self.passing.discard(scope)
            elif scope.free_until_s - now_s < lease_s * 2 / 3:
                self.to_announce.add(scope)

    def forget(self, scope: Scope) -> None:
        """No topic has it any more."""
        self.opened.discard(scope)
        self.doubted.discard(scope)
        self.passing.discard(scope)
        self._nonces.pop(scope, None)
        self._opens_s.pop(scope, None)
        self._talked.pop(scope, None)
        self.to_talk.discard(scope)
        self.to_announce.discard(scope)
