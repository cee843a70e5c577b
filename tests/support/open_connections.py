"""A test that leaves a connection open fails, by its own name.

Otherwise the garbage collector finds the connection during another test and fails that one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

_TURNS = 3  # a transport that was closed lets go of its socket one turn later


class _Loop(asyncio.SelectorEventLoop):
    def close(self) -> None:
        left: list[str] = []
        if not self.is_closed() and not self.is_running():
            for _ in range(_TURNS):
                self.run_until_complete(asyncio.sleep(0))
            # asyncio's own list of those that have a socket: weak, so one that is gone is not in it
            left = [
                f"{one.get_extra_info('sockname')} to {one.get_extra_info('peername')}"
                for one in list(self._transports.values())  # type: ignore[attr-defined]
                if one._sock is not None
            ]
        super().close()
        assert not left, f"connections that the test has left open: {', '.join(left)}"


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """One loop for all tests."""
    return {"watched": _Loop}
