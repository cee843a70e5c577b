"""Lines of libraries: the fields they get, and those that repeat Headgate's own lines."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import io
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from headgate.config.settings import LogSettings
from headgate.kafka import aiokafka_internals
from headgate.metrics import logs
from headgate.metrics.library_lines import (
    PATIENCE_S,
    QUIET_S,
    REPEATED,
    ClusterOutage,
    in_cluster,
)
from support.root import ROOT

MODULES = (
    "client", "cluster", "conn", "consumer.fetcher", "consumer.group_coordinator",
    "producer.sender",
)  # fmt: skip
NODE = "Unable connect to node with id %s: %s"


class Process:
    """The log of a process, at a time of ours."""

    def __init__(self, level: str = "INFO", worker: int | None = None) -> None:
        self.now = 0.0
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._stream = io.StringIO()
        logs.configure(
            LogSettings(level=level),  # type: ignore[arg-type]
            self._stream,
            lambda: self.now,
            self._later,
            worker,
        )

    def _later(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        self._due.append((self.now + seconds, call))
        return lambda: None

    def wait(self, seconds: float) -> None:
        """Let time pass, with all calls that are due."""
        self.now += seconds
        while due := [each for each in self._due if each[0] <= self.now]:
            self._due.remove(due[0])
            due[0][1]()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self._stream.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def _root() -> Iterator[None]:
    root, library = logging.getLogger(), logging.getLogger("aiokafka")
    before = root.handlers[:], root.level, library.level
    yield
    root.handlers[:], root.level = before[0], before[1]
    library.setLevel(before[2])


def source_of(logger: str) -> str:
    """The sources of aiokafka's modules with this logger, and of ours that logs as its client."""
    modules = [importlib.import_module(f"aiokafka.{name}") for name in MODULES]
    return "".join(
        inspect.getsource(module)
        for module in (*modules, aiokafka_internals)
        if module.log.name == logger
    )


@pytest.mark.parametrize("logger", REPEATED)
def test_the_installed_aiokafka_has_these_lines(logger: str) -> None:
    text = re.sub(r'"\s+"', "", source_of(logger)).replace("\\'", "'")
    for line in REPEATED[logger]:
        assert line in text, line


def test_lines_that_repeat_are_left_out() -> None:
    process = Process()
    for logger, known in REPEATED.items():
        for line in known:
            logging.getLogger(logger).error(line, *("x" for _ in re.findall("%[sr]", line)))
    assert process.lines == []


def test_lines_that_repeat_are_debug() -> None:
    process = Process("DEBUG")
    logging.getLogger("aiokafka").error(NODE, 1, "refused")
    (line,) = process.lines
    assert (line["level"], line["text"]) == (
        "DEBUG",
        "Unable connect to node with id 1: refused",
    )


@pytest.mark.parametrize(
    ("logger", "text"),
    [
        ("aiokafka.producer.sender", "Unexpected error in sender routine"),
        ("aiokafka.cluster", "Topic orders is not authorized for this client"),
        ("aiokafka", "a line of another version"),
        ("asyncio", "Task exception was never retrieved"),
    ],
)
def test_errors_that_are_not_known_are_written(logger: str, text: str) -> None:
    process = Process()
    logging.getLogger(logger).error(text)
    (line,) = process.lines
    assert (line["level"], line["logger"], line["text"]) == ("ERROR", logger, text)


async def test_lines_have_the_fields_of_their_worker_and_cluster() -> None:
    process = Process(worker=3)

    async def clients_task() -> None:
        logging.getLogger("aiokafka.cluster").error("Topic %s is not authorized", "orders")
        logging.getLogger("headgate.kafka").warning("cluster main does not answer")

    async def of_cluster() -> None:
        in_cluster("main")
        await asyncio.create_task(clients_task())

    await asyncio.create_task(of_cluster())
    logging.getLogger("headgate.supervisor").info("worker 3 started", extra={"worker": 3})
    found = [(line.get("worker"), line.get("cluster")) for line in process.lines]
    assert found == [(3, "main"), (3, "main"), (3, None)]


class Broker:
    """A broker that aiokafka cannot connect to, again and again."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def fails(self, seconds: float) -> list[str]:
        """The levels of the lines so far, at the end."""
        in_cluster("main")
        end = self._process.now + seconds
        while self._process.now < end:
            logging.getLogger("aiokafka").error(NODE, 2, "nothing listens there")
            self._process.wait(1.0)
        return [line["level"] for line in self._process.lines]


async def test_a_broker_that_stays_unavailable_in_a_cluster_that_answers() -> None:
    broker = Broker(process := Process())
    assert await broker.fails(PATIENCE_S) == []
    process.now += 100  # it recovers
    assert await broker.fails(PATIENCE_S) == []
    assert await broker.fails(2) == ["WARNING"]
    assert process.lines[0]["cluster"] == "main"


async def test_a_broker_that_stays_unavailable_has_one_line_at_the_begin_and_one_at_the_end() -> (
    None
):
    broker = Broker(process := Process())
    assert await broker.fails(600) == ["WARNING"]
    process.wait(QUIET_S - 2)
    assert len(process.lines) == 1
    process.wait(2)
    [_, end] = process.lines
    assert (end["level"], end["logger"], end["cluster"]) == ("INFO", "aiokafka", "main")
    assert end["away_s"] == 599
    assert "node with id 2" in end["text"]
    # The next failures are another outage.
    assert await broker.fails(PATIENCE_S + 2) == ["WARNING", "INFO", "WARNING"]


async def test_the_end_is_not_written_above_its_level() -> None:
    broker = Broker(process := Process("WARNING"))
    assert await broker.fails(30) == ["WARNING"]
    process.wait(10 * QUIET_S)
    assert len(process.lines) == 1


async def test_a_broker_that_stays_unavailable_in_a_cluster_whose_outage_is_reported() -> None:
    broker, outage = Broker(Process()), ClusterOutage("main")
    assert outage.begins()
    assert not outage.begins()
    assert await broker.fails(10 * PATIENCE_S) == []
    assert outage.ends() is not None
    assert outage.ends() is None
    assert await broker.fails(1) == ["WARNING"]


def test_the_page_names_where_they_are_reported() -> None:
    page = (ROOT / "docs" / "operate" / "logs.md").read_text()
    assert f"{PATIENCE_S:g} seconds" in page
    assert f"no failure for {QUIET_S:g} seconds" in " ".join(page.split())
