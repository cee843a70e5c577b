"""The last use of each configured token, which shows when an old one can be removed."""

import hashlib

from headgate.config.settings import AuthSettings, ProducerSettings
from headgate.http.auth import Authenticator, Peer

OLD, NEW = (hashlib.sha256(token).hexdigest() for token in (b"old-token", b"new-token"))
AUTH = AuthSettings(mode=("token",))


class Callers:
    """Authenticators of one process, before and after reloads."""

    def __init__(self, *hashes: str) -> None:
        self.now = 1000.0
        self._last_used: dict[bytes, float] = {}
        self.reload(*hashes)

    def reload(self, *hashes: str) -> None:
        producers = {"shop": ProducerSettings(hashes, ("*",))}
        self.active = Authenticator(
            AUTH, producers, clock=lambda: self.now, last_used=self._last_used
        )

    def send(self, token: bytes) -> None:
        self.active.identify({b"authorization": b"Bearer " + token}, Peer(None))


def test_the_last_use_of_each_token_is_noted() -> None:
    callers = Callers(OLD, NEW)
    assert callers.active.token_uses() == {}
    callers.send(b"old-token")
    callers.now = 1010.0
    callers.send(b"new-token")
    callers.send(b"wrong-token")
    assert callers.active.token_uses() == {OLD: 1000.0, NEW: 1010.0}
    callers.now = 1020.0
    callers.send(b"new-token")
    assert callers.active.token_uses() == {OLD: 1000.0, NEW: 1020.0}


def test_uses_outlive_a_reload_that_keeps_the_token() -> None:
    callers = Callers(OLD)
    callers.send(b"old-token")
    callers.reload(OLD, NEW)
    assert callers.active.token_uses() == {OLD: 1000.0}
    callers.reload(NEW)
    assert callers.active.token_uses() == {}
