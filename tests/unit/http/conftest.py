"""Both kinds of event loops run the tests of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The kinds of event loops that run a test, by name."""
    loops = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return loops if item.path.name == "test_connection.py" else {"asyncio": loops["asyncio"]}
