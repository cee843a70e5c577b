"""What tests of random faults share."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable

import pytest


@pytest.fixture
def seed(record_property: Callable[[str, object], None]) -> int:
    """Of the clients and the faults; CHAOS_SEED takes one again."""
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
    record_property("seed", seed)
    sys.stderr.write(f"CHAOS_SEED={seed}\n")
    return seed
