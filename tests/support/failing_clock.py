"""A clock that fails when it is asked to: a fault in whatever reads it next."""

from collections.abc import Callable


class FailingClock:
    """clock: what it shows otherwise.  fails: whether the next reading raises."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.fails = False

    def __call__(self) -> float:
        if self.fails:
            self.fails = False
            raise RuntimeError("the clock failed")
        return self._clock()
