"""How many wrong credentials one address may send: a small table that is told the time.

Each wrong one moves the time at which its address has a clean record again (GCRA: one number for
each address, no windows whose edges can be gamed). Over the limit nothing that the address sends is
looked at, except credentials that were right before from there: many clients may share an address,
and they go on.
"""

from ipaddress import IPv6Address, ip_address
from typing import Final

WINDOW_S: Final = 60.0
_ADDRESSES_MAX: Final = 4096  # others share one record, so that spraying addresses gains nothing
_KNOWN_MAX: Final = 16_384  # pairs of address and credentials
_OTHERS: Final = "others"
_IPV6_NETWORK_BITS: Final = 64  # what one subscriber has to itself


class Attempts:
    """limit: wrong credentials that an address may send at once, and then within WINDOW_S.

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
