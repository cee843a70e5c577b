"""Time limits for many who wait, on one timer.

A timer and a context manager for each would cost 10 us, as much as a call (measured).
"""

import asyncio
from collections.abc import Callable

_LATE_S = 0.01  # a timer later than this was held up by something on the loop
_CHECKS = 8  # within the time that anybody may wait


class Patience:
    """Lets calls end with TimeoutError after `seconds`, each in its own `asyncio.timeout`."""

    __slots__ = ("_due_s", "_has_waited", "_runs_s", "_scope", "_seconds", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._scope: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = self._runs_s = 0.0
        self._has_waited = False

    def begins(self, scope: asyncio.Timeout) -> None:
        """A call begins, in this scope (which was entered without a time)."""
        loop = asyncio.get_running_loop()
        self._scope = scope
        self._due_s = loop.time() + self._seconds
        self._has_waited = False
        if self._timer is None:
            self._run_at(loop, self._due_s)

    def ends(self) -> None:
        """No call is on its way. The timer stays for the next one, and ends by itself."""
        self._scope = None

    def _run_at(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        self._runs_s = due_s
        self._timer = loop.call_at(due_s, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._scope is None:
            return
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        if now_s < self._due_s:
            self._run_at(loop, self._due_s)
        elif now_s - self._runs_s > _LATE_S and not self._has_waited:
            # Our own event loop was held up, and it runs timers before it reads: give it a turn
            # to read what is there already. Once: on a loop that is always late it would never end.
            self._has_waited = True
            self._run_at(loop, now_s + _LATE_S)
        else:
            self._scope.reschedule(0)


class OverdueCheck:
    """Ends the waits that last too long: calls `check` again and again while anybody waits.

    seconds: how long anybody may wait; checks come several times within it.  check: returns
    whether somebody still waits.
    """

    __slots__ = ("_check", "_due_s", "_has_waited", "_is_on", "_pause_s")

    def __init__(self, seconds: float, check: Callable[[], bool]) -> None:
        self._pause_s = seconds / _CHECKS
        self._check = check
        self._due_s = 0.0
        self._is_on = self._has_waited = False

    def begin(self) -> None:
        """Somebody waits from now on."""
        if not self._is_on:
            self._is_on = True
            self._run_in(self._pause_s)

    def _run_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + seconds
        loop.call_at(self._due_s, self._run)

    def _run(self) -> None:
        late_s = asyncio.get_running_loop().time() - self._due_s
        if late_s > _LATE_S and not self._has_waited:
            self._has_waited = True  # as in `Patience`: what has been answered is read first
            self._run_in(_LATE_S)
            return
        self._has_waited = self._is_on = False
        still_waited_for = True  # also when the check fails: the others must not wait for ever
        try:
            still_waited_for = self._check()
        finally:
            if still_waited_for:
                self.begin()
