"""The cyclic garbage collector of a process that handles events."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def spare_the_collector() -> None:
    """Let the cyclic garbage collector look seldom: events make many objects and no cycles. What
    else does is collected when it is worth it (`wiring.leftovers`).

    Measured with batches of 50: 10 % of the CPU (loadtest/README.md); with 100,000 events held a
    full look takes 50 ms. What was made so far stays for good, so it is not looked at again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@contextmanager
def without_the_collector() -> Iterator[None]:
    """Make what stays, and much that does not, without the collector looking at it meanwhile.

    10,000 sections of a configuration make the collector look several times, 10 to 30 ms each,
    and whoever waits for the interpreter's lock waits as long. Counting references still frees
    what is dropped. Cycles that others drop in these one or two seconds are never freed.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
