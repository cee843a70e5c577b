"""Fetches an issuer's keys beside the event loop, and keeps them while the issuer is away."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import aiohttp
from joserfc.jwk import Key

from headgate.config.settings import AuthSettings
from headgate.core.outage import Outage
from headgate.core.secrets import masked, without_secrets
from headgate.edge.jwt.keys import BadKeysError, Keys, read_keys

log = logging.getLogger("headgate.edge.jwt")

FETCHED, FAILED = "fetched", "failed"  # the values of the metric's label `result`
_MAX_BYTES = 1_048_576
_TIMEOUT = aiohttp.ClientTimeout(total=10)
_NAMES_REMEMBERED = 1000  # clients choose them freely
_FIRST_TRIES_S = 2.0  # between two, as long as there are no keys at all


class FetchedKeys:
    """Implements `tokens.TrustedKeys`; `run` fetches them again and again.

    report: told of each fetch, FETCHED or FAILED.  clock: seconds since 1970.
    generation: grows when a key is gone.  first: set once there are keys.
    """

    def __init__(
        self, auth: AuthSettings, report: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        assert auth.jwt_jwks_url is not None
        self._url: str = auth.jwt_jwks_url
        self._shown = masked(self._url)
        self._ca_file = auth.jwt_jwks_ca_file
        self._algorithms = auth.jwt_algorithms
        self._refresh_s = auth.jwt_refresh_ms / 1000
        self._unknown_s = auth.jwt_unknown_key_ms / 1000
        self._max_age_s = auth.jwt_keys_max_age_ms / 1000
        self._report = report
        self._clock = clock
        self._keys: Keys | None = None
        self._outage = Outage(clock)
        self._wake = asyncio.Event()
        self.first = asyncio.Event()
        # Names of keys in tokens that were not known: since the last fetch, and in vain before it.
        self._wanted: set[str] = set()
        self._missing: set[str] = set()
        self._is_fetching = False
        self._begun = float("-inf")  # when the last fetch began, by the event loop's clock
        self.generation = 0
        self.trusted_until = float("-inf")

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.fetch()
            pause_s = self._refresh_s
            if self._keys is None:
                pause_s = min(pause_s, _FIRST_TRIES_S)
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def fetch(self) -> None:
        """Once. What fails leaves the keys that are known in force, until they are too old."""
        self._wake.clear()
        asked, self._wanted = self._wanted, set()
        self._begun, self._is_fetching = asyncio.get_running_loop().time(), True
        try:
            self._accept(read_keys(await self._body(), self._algorithms), asked)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, BadKeysError) as error:
            self._report(FAILED)
            self._outage.begins()
            left_s = max(0.0, self.trusted_until - self._clock())
            known = {"url": self._shown, "trusted_for_s": round(left_s)}
            why = without_secrets(repr(error))
            log.error("keys of the issuer cannot be fetched: %s", why, extra=known)  # noqa: TRY400
        finally:
            self._is_fetching = False

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        return None if self._keys is None else self._keys.find(key_id, algorithm)

    def ask_again(self, key_id: str = "") -> bool:
        """A token names a key that is not known: fetch, but not too often.

        Returns whether it may be known soon. One that the issuer was asked for in vain may not.
        """
        is_under_way = self._is_fetching or self._wake.is_set()
        waited_s = asyncio.get_running_loop().time() - self._begun
        if not is_under_way and waited_s < self._unknown_s:
            return False
        if not is_under_way:
            self._wake.set()
        if key_id in self._missing:
            return False
        if len(self._wanted) < _NAMES_REMEMBERED:
            self._wanted.add(key_id)
        return True

    def _accept(self, keys: Keys, asked: set[str]) -> None:
        if (away_s := self._outage.ends()) is not None:
            known = {"url": self._shown, "away_s": away_s}
            log.info("keys of the issuer fetched again", extra=known)
        before = set() if self._keys is None else self._keys.thumbprints
        if before - keys.thumbprints:
            self.generation += 1
        if before != keys.thumbprints:
            log.info("issuer has %d keys", len(keys.thumbprints), extra={"url": self._shown})
        self._keys = keys
        self.trusted_until = self._clock() + self._max_age_s
        if len(self._missing) > _NAMES_REMEMBERED:
            self._missing.clear()
        self._missing |= asked
        self.first.set()
        self._report(FETCHED)

    async def _body(self) -> bytes:
        parts = urlsplit(self._url)
        if parts.scheme == "file":
            return await asyncio.to_thread(_read, Path(unquote(parts.path)))
        verified: ssl.SSLContext | bool = True
        if self._ca_file is not None:
            try:
                verified = ssl.create_default_context(cafile=self._ca_file)
            except OSError as error:
                why = error.strerror or str(error)
                text = f"auth.jwt_jwks_ca_file = {self._ca_file!r} cannot be used: {why}"
                raise BadKeysError(text) from error
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session,
            # Followed elsewhere, the keys would be those of whoever answers there.
            session.get(self._url, allow_redirects=False, ssl=verified) as answer,
        ):
            if answer.status != 200:
                raise BadKeysError(f"answered {answer.status}")
            return await _bounded(answer.content)


async def _bounded(content: aiohttp.StreamReader) -> bytes:
    body = b""
    async for piece in content.iter_any():
        body += piece
        if len(body) > _MAX_BYTES:
            raise BadKeysError(f"longer than {_MAX_BYTES} bytes")
    return body


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        body = file.read(_MAX_BYTES + 1)
    if len(body) > _MAX_BYTES:
        raise BadKeysError(f"longer than {_MAX_BYTES} bytes")
    return body
