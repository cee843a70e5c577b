"""Limits how many wrong credentials an address may send, and tells the log of those that try."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import Final

from headgate.core.http.attempts import WINDOW_S, Attempts, network_of
from headgate.core.outcome import Failure, Reason

_TOLD_APART: Final = 1000  # addresses in the counts of one window

log = logging.getLogger("headgate.edge.attempts")

Later = Callable[[float, Callable[[], None]], object]


class AttemptLimit:
    """limit: see `Attempts`.  clock: monotonic seconds.  later: calls something after so many
    seconds, by default by the running loop."""

    def __init__(
        self,
        limit: int,
        clock: Callable[[], float] = time.monotonic,
        later: Later | None = None,
    ) -> None:
        self._attempts = Attempts(limit)
        self._clock = clock
        self._later = later or _later
        self._is_counting = False
        self._wrong = 0
        self._refused: dict[str, int] = {}

    def refusal(self, remote: str | None, credentials: bytes) -> Failure | None:
        """Why these credentials are not even looked at, or None. remote: the peer's address."""
        address = remote or ""
        wait_s = self._attempts.wait(address, credentials, self._clock())
        if wait_s <= 0:
            return None
        self._tell(network_of(address))
        detail = (
            "too many wrong credentials came from this address: for now only credentials that "
            "were valid before are checked"
        )
        return Failure(Reason.TOO_MANY_ATTEMPTS, detail, None, math.ceil(wait_s))

    def right(self, remote: str | None, credentials: bytes) -> None:
        """These were right."""
        self._attempts.right(remote or "", credentials)

    def wrong(self, remote: str | None, credentials: bytes) -> None:
        """Count credentials that were wrong."""
        self._wrong += 1
        self._attempts.wrong(remote or "", credentials, self._clock())

    def _tell(self, address: str) -> None:
        """Count it. The first one is written at once; then there is one line a window, however many
        addresses take part."""
        if not self._is_counting:
            self._is_counting = True
            self._later(WINDOW_S, self._end_of_window)
            log.warning(
                "too many wrong credentials: this address is refused unchecked for now",
                extra={"remote": address},
            )
        if address in self._refused or len(self._refused) < _TOLD_APART:
            self._refused[address] = self._refused.get(address, 0) + 1

    def _end_of_window(self) -> None:
        refused, wrong = self._refused, self._wrong
        self._refused, self._wrong, self._is_counting = {}, 0, False
        if not refused:
            return
        self._is_counting = True
        self._later(WINDOW_S, self._end_of_window)
        most = max(refused, key=lambda address: refused[address])
        figures = {
            "wrong": wrong,
            "refused": sum(refused.values()),
            "addresses": len(refused),
            "remote": most,
        }
        log.warning(
            "wrong credentials received within %d s, most of them from this address",
            WINDOW_S,
            extra=figures,
        )


def _later(seconds: float, call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, call)
