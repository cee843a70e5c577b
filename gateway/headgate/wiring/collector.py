"""The cyclic garbage collector of a process that handles events."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def spare_the_collector() -> None:
    """Let the cyclic garbage collector run rarely: events make many objects and no cycles.

    Other cycles are collected when it pays (`wiring.leftovers`).

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
