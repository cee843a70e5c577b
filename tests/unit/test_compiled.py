"""`make test-compiled` must not silently run the sources."""

import os
from importlib import import_module
from pathlib import Path

HOT = ("core.route", "ingest", "endings", "suppression.claims", "backends.lane", "stats.meter")


def test_the_modules_are_what_this_run_is_for() -> None:
    wanted = ".so" if os.environ.get("EXPECT_COMPILED") == "1" else ".py"
    for name in HOT:
        found = import_module(f"headgate.{name}").__file__
        assert found is not None
        assert Path(found).suffix == wanted, name
