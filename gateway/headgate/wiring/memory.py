"""The memory of a process that handles events: the garbage collector, and its return to the system.

Events make many objects and no cycles, so the collector runs rarely. After a backlog, cycles are
collected and freed memory is returned to the system.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headgate.backends.heap import give_back
from headgate.metrics.meter import memory_bytes


def spare_the_collector() -> None:
    """Let the cyclic garbage collector run rarely: events make many objects and no cycles.

    Other cycles are collected when it pays (`give_back_leftovers`).

    Measured with batches of 50, this saves 10 % of the CPU (loadtest/README.md). With 100,000 held
    events a full collection takes 50 ms. All existing objects are frozen, so that the collector
    skips them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@contextmanager
def without_the_collector() -> Iterator[None]:
    """Disable the collector while long-lived objects are made.

    10,000 sections of a configuration trigger several collections of 10 to 30 ms each, and every
    thread that needs the interpreter's lock waits as long. Reference counting still frees dropped
    objects. Cycles that other threads drop in these one or two seconds are never freed.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


_LOOK_S = 1.0
_WORTH_BYTES = 16 * 2**20  # less varies with the load, and would be allocated again
_QUIET_LOOKS = 5  # longer than the pauses of a bursty load


class Leftovers:
    """A decision when to return memory.

    Args:
        resident: Bytes in memory at the start.
    """

    def __init__(self, resident: float) -> None:
        self._usual = resident
        self._quiet = 0

    def are_worth_it(self, resident: float, in_flight: int) -> bool:
        """Take a look, and return whether memory should be returned now.

        Args:
            resident: Bytes in memory.
            in_flight: Bytes of events in flight.
        """
        self._usual = min(self._usual, resident)
        grown = resident - self._usual
        is_quiet = grown > _WORTH_BYTES and in_flight < grown / 8
        self._quiet = self._quiet + 1 if is_quiet else 0
        return self._quiet >= _QUIET_LOOKS

    def given_back(self, resident: float) -> None:
        """Restart from the memory that could not be returned: only further growth counts."""
        self._usual = resident
        self._quiet = 0


async def give_back_leftovers(in_flight: Callable[[], int]) -> None:
    """Look every second until cancelled, and return memory when it pays.

    While Kafka does not answer, 100,000 events of 650 bytes (`admission.in_flight_max_events`) take
    250 MiB. glibc keeps most of it after they have ended: 321 MiB stayed resident, and 161 MiB
    after malloc_trim, which took 14 ms of a thread.

    Cycles are collected first. Events leave none, but each connection that a broker refuses does
    (aiokafka's exceptions refer to their frames): 122 of them, with their read buffers, held 10 MiB
    after three minutes with brokers down. The collector takes milliseconds, and runs only when
    little is in flight.

    Args:
        in_flight: Returns the bytes of events in flight.
    """
    leftovers = Leftovers(memory_bytes())
    while True:
        await asyncio.sleep(_LOOK_S)
        if leftovers.are_worth_it(memory_bytes(), in_flight()):
            gc.collect()
            await asyncio.to_thread(give_back)
            leftovers.given_back(memory_bytes())
