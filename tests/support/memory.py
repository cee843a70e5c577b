"""What calls leave in memory."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

CALLS = 20
_ROUNDS = 5


def blocks_kept(call: Callable[[], None]) -> int:
    """Blocks that `CALLS` calls leave allocated: the fewest of some rounds.

    What leaks does so in every round, `CALLS` blocks or more. The interpreter, which allocates for
    itself now and then, does not.
    """
    call()
    return min(_growth(call) for _ in range(_ROUNDS))


def _growth(call: Callable[[], None]) -> int:
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(CALLS):
        call()
    gc.collect()
    return sys.getallocatedblocks() - before
