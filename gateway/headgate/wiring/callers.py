"""Authenticators, one for each configuration; keys and failed attempts outlive them."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from headgate.backends.owned import OwnedTasks
from headgate.config import HttpSettings, Settings
from headgate.config.settings import AuthSettings
from headgate.http.auth import AttemptLimit, Authenticator, SignedTokens
from headgate.http.origins import Origins

if TYPE_CHECKING:
    from headgate.http.jwt import FetchedKeys

_FIRST_KEYS_S = 3.0


class Callers:
    """A factory of authenticators.

    Args:
        auth: The settings of authentication.
        origins: Returns the web origins that browsers may use.
        report: Called with the result of each fetch of keys.
    """

    def __init__(
        self,
        auth: AuthSettings,
        origins: Callable[[HttpSettings], Origins],
        report: Callable[[str], None],
    ) -> None:
        self._origins = origins
        self._attempts = AttemptLimit(auth.failed_attempts_per_minute)
        self._keys: FetchedKeys | None = None
        self._signed: SignedTokens | None = None
        if "jwt" in auth.mode:
            self._keys, self._signed = _signed_tokens(auth, report)

    def of(self, settings: Settings) -> Authenticator:
        """Return an authenticator for these settings. May be called in a thread."""
        origins = self._origins(settings.http)
        return Authenticator(
            settings.auth, settings.producers, origins, self._attempts, self._signed
        )

    async def start(self, tasks: OwnedTasks) -> None:
        """Begin to fetch keys, and wait briefly for the first: without keys tokens get 503."""
        if self._keys is not None:
            tasks.keep(self._keys.run, "the issuer's keys")
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_KEYS_S):
                    await self._keys.first.wait()


def _signed_tokens(
    auth: AuthSettings, report: Callable[[str], None]
) -> "tuple[FetchedKeys, SignedTokens]":
    # An extra of the package, needed only for signed tokens.
    from headgate.http.jwt import CheckedTokens, FetchedKeys

    keys = FetchedKeys(auth, report, time.time)
    return keys, CheckedTokens(auth, keys, time.time)
