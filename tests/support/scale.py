"""How much of a scenario `make test` takes. `make test-full` takes all of it."""

from __future__ import annotations

import pytest
from _pytest.mark.structures import ParameterSet
from hypothesis import settings

SCALED, FULL = 25, 100  # examples of a test that does not say how many


def set_profiles() -> None:
    """Have hypothesis draw few examples, unless `--hypothesis-profile full` comes after this.

    No example has a deadline: how long one takes says how busy the machine is.
    """
    for name, count in (("scaled", SCALED), ("full", FULL)):
        settings.register_profile(name, settings.default, max_examples=count, deadline=None)
    settings.load_profile("scaled")


def examples(everything: int) -> int:
    """Of so many examples in `make test-full`, those of this run."""
    assert settings.default is not None
    return max(1, everything * settings.default.max_examples // FULL)


def is_full() -> bool:
    """Return whether this is `make test-full`."""
    assert settings.default is not None
    return settings.default.max_examples >= FULL


def scaled(some: object, everything: object) -> list[ParameterSet]:
    """The two sizes of a parametrised scenario."""
    return [
        pytest.param(some, id="scaled"),
        pytest.param(everything, id="full", marks=pytest.mark.full),
    ]
