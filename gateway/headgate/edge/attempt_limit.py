"""Limits how many wrong credentials an address may send, and tells the log of those that try."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Final

from headgate.core.outcome import Failure, Reason

WINDOW_S: Final = 60.0
_ADDRESSES_MAX: Final = 4096  # others share one record, so that spraying addresses gains nothing
_KNOWN_MAX: Final = 16_384  # pairs of address and credentials
_OTHERS: Final = "others"
_IPV6_NETWORK_BITS: Final = 64  # what one subscriber has to itself


class Attempts:
    """A bounded table of wrong credentials by address.

    Each wrong one moves the time at which its address has a clean record again (GCRA: one number
    for each address, no windows whose edges can be gamed). Over the limit no credentials of the
    address are checked, except those that were right before from there: many clients may share an
    address, and they go on.

    limit: wrong credentials that an address may send at once, and then within WINDOW_S.

    addresses, known: how many are kept apart, and how many pairs of address and credentials.
    All times are monotonic seconds.
    """

    def __init__(
        self, limit: int, addresses: int = _ADDRESSES_MAX, known: int = _KNOWN_MAX
    ) -> None:
        self._addresses_max = addresses
        self._known_max = known
        self._interval_s = WINDOW_S / limit
        self._clean_at: dict[str, float] = {}
        self._swept_at = float("-inf")
        # Hashes of Python's own, keyed anew in each process: they say only whether to look closer,
        # and no token stands here.
        self._known: dict[int, None] = {}

    def wait(self, address: str, credentials: bytes, now: float) -> float:
        """Seconds until credentials from here are looked at again; 0 when they are now."""
        if not self._clean_at or hash((address, credentials)) in self._known:
            return 0.0
        clean_at = self._clean_at.get(self._record_of(address), now)
        return max(0.0, clean_at + self._interval_s - WINDOW_S - now)

    def right(self, address: str, credentials: bytes) -> None:
        """These were right."""
        pair = hash((address, credentials))
        if pair in self._known:
            return
        if len(self._known) >= self._known_max:
            del self._known[next(iter(self._known))]
        self._known[pair] = None

    def wrong(self, address: str, credentials: bytes, now: float) -> None:
        """Count credentials that were wrong. They may have been right before a reload."""
        self._known.pop(hash((address, credentials)), None)
        if len(self._clean_at) >= self._addresses_max:
            self._sweep(now)
        record = self._record_of(address)
        self._clean_at[record] = max(self._clean_at.get(record, now), now) + self._interval_s

    def _record_of(self, address: str) -> str:
        network = network_of(address)
        has_place = network in self._clean_at or len(self._clean_at) < self._addresses_max
        return network if has_place else _OTHERS

    def _sweep(self, now: float) -> None:
        """Drop clean records. That walks over all of them, so not at every request."""
        if now < self._swept_at + self._interval_s:
            return
        self._swept_at = now
        self._clean_at = {one: at for one, at in self._clean_at.items() if at > now}


def network_of(address: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:  # as a socket for both kinds shows IPv4
        return str(parsed.ipv4_mapped)
    network = int(parsed) >> (128 - _IPV6_NETWORK_BITS) << (128 - _IPV6_NETWORK_BITS)
    return f"{IPv6Address(network)}/{_IPV6_NETWORK_BITS}"


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
