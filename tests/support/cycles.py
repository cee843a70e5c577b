"""What only the cyclic garbage collector can free."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def counted_cycles(module: str) -> Iterator[Counter[str]]:
    """Fill the counter, when the block has ended, with the names of the classes of this module or
    package whose objects the block left in cycles. No collection happens within the block."""
    found = Counter[str]()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        for left in gc.garbage:
            if type(left).__module__.startswith(module):
                found[type(left).__name__] += 1
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
