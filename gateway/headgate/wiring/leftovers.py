"""Gives back what a process needed for a backlog or left in cycles, once that is gone.

While Kafka does not answer, 100,000 events of 650 bytes (`admission.in_flight_max_events`) take
250 MiB. glibc keeps most of it when they have ended: 321 MiB stayed resident, 161 after asking for
them back, which took 14 ms of a thread.

The collector looks seldom (`wiring.collector`), so cycles are collected here first. Events leave
none, but each connection that a broker refuses does (aiokafka's exceptions know their frames):
122 of them, and what they read into, held 10 MiB after three minutes with brokers away.
"""

import asyncio
import gc
from collections.abc import Callable

from headgate.backends.heap import give_back
from headgate.metrics.meter import memory_bytes

_LOOK_S = 1.0
_WORTH_BYTES = 16 * 2**20  # less comes and goes with the load, and would be asked for again
_QUIET_LOOKS = 5  # a load with pauses of a second keeps its memory


class Leftovers:
    """Decides when to give back. resident: bytes in memory at the start."""

    def __init__(self, resident: float) -> None:
        self._usual = resident
        self._quiet = 0

    def are_worth_it(self, resident: float, in_flight: int) -> bool:
        """Look once. in_flight: bytes of events under way."""
        self._usual = min(self._usual, resident)
        grown = resident - self._usual
        is_quiet = grown > _WORTH_BYTES and in_flight < grown / 8
        self._quiet = self._quiet + 1 if is_quiet else 0
        return self._quiet >= _QUIET_LOOKS

    def given_back(self, resident: float) -> None:
        """What is left in memory now cannot be given back: only further growth counts."""
        self._usual = resident
        self._quiet = 0


async def give_back_leftovers(in_flight: Callable[[], int]) -> None:
    """Look every second, until cancelled. in_flight: bytes of events under way.

    The collector takes milliseconds: little is under way when it is called.
    """
    leftovers = Leftovers(memory_bytes())
    while True:
        await asyncio.sleep(_LOOK_S)
        if leftovers.are_worth_it(memory_bytes(), in_flight()):
            gc.collect()
            await asyncio.to_thread(give_back)
            leftovers.given_back(memory_bytes())
