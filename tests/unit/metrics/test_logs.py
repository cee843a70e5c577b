"""The log's lines."""

import io
import logging
import time
from collections.abc import Callable, Iterator

import orjson
import pytest

from headgate.config.settings import LogSettings
from headgate.metrics import logs


class Ticks:
    """A clock, and the one timer that is set by it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timer: tuple[float, Callable[[], None]] | None = None

    def __call__(self) -> float:
        return self.now

    def later(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        assert self.timer is None
        self.timer = self.now + seconds, call
        return self.cancel

    def cancel(self) -> None:
        self.timer = None

    def go_on(self, seconds: float) -> None:
        self.now += seconds
        if self.timer is not None and self.timer[0] <= self.now:
            call, self.timer = self.timer[1], None
            call()


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = before
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in stream.getvalue().splitlines()]


def texts(stream: io.StringIO) -> list[object]:
    return [line["text"] for line in lines(stream)]


def test_a_line_is_json_with_the_fields_that_were_given(root: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure(LogSettings(), stream)
    logging.getLogger("headgate.x").info(
        "worker %d\nstarted", 3, extra={"worker": 3, "token": "geheim", "odd": "\ud800"}
    )
    (line,) = lines(stream)
    assert line["text"] == "worker 3\nstarted"
    assert (line["level"], line["logger"], line["worker"]) == ("INFO", "headgate.x", 3)
    assert "geheim" not in stream.getvalue()
    assert str(line["time"]).endswith("Z")


def test_a_traceback_stays_on_the_line(root: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure(LogSettings(), stream)
    try:
        dict[str, int]()["lost"]
    except KeyError:
        logging.getLogger("headgate.x").exception("broken")
    (line,) = lines(stream)
    assert "KeyError: 'lost'" in str(line["error"])


def test_levels_are_respected_and_text_is_one_line(root: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure(LogSettings(level="WARNING", format="text"), stream)
    log = logging.getLogger("headgate.x")
    log.info("quiet")
    log.warning("refused\nFAKE line", extra={"topic": "orders"})
    assert stream.getvalue().count("\n") == 1
    assert "WARNING refused\\nFAKE line  topic=orders" in stream.getvalue()


def test_repeated_warnings_are_counted_and_told_after_a_while(root: logging.Logger) -> None:
    stream, ticks = io.StringIO(), Ticks()
    logs.configure(LogSettings(), stream, ticks, ticks.later)
    log = logging.getLogger("headgate.x")
    log.warning("something else")
    for _ in range(500):
        log.warning("redis is away")
    assert texts(stream) == ["something else", "redis is away"]
    ticks.go_on(logs.REPEAT_S)  # no other line is written
    assert texts(stream)[2:] == ["redis is away (repeated 499 times)"]
    assert lines(stream)[-1]["repeated"] == 499
    log.warning("redis is away")
    root.handlers[0].close()
    assert texts(stream)[3:] == ["redis is away (repeated 1 time)"]
    assert ticks.timer is None


def test_a_warning_that_goes_on_does_not_look_like_a_new_one(root: logging.Logger) -> None:
    stream, ticks = io.StringIO(), Ticks()
    logs.configure(LogSettings(), stream, ticks, ticks.later)
    log = logging.getLogger("headgate.x")
    for _ in range(25):
        log.warning("redis is away")
        ticks.go_on(1)
    ticks.go_on(logs.REPEAT_S)
    assert [line.get("repeated") for line in lines(stream)] == [None, 9, 10, 5]
    ticks.go_on(logs.REPEAT_S)
    log.warning("redis is away")
    assert len(lines(stream)) == 5
    assert texts(stream)[-1] == "redis is away"


def test_repeats_are_written_before_the_line_that_ends_them(root: logging.Logger) -> None:
    stream, ticks = io.StringIO(), Ticks()
    logs.configure(LogSettings(), stream, ticks, ticks.later)
    log = logging.getLogger("headgate.x")
    for _ in range(3):
        log.warning("redis is away")
    logging.getLogger("headgate.y").info("of another thing")
    log.info("redis is available")
    ticks.go_on(100)
    assert texts(stream) == [
        "redis is away",
        "of another thing",
        "redis is away (repeated 2 times)",
        "redis is available",
    ]


def test_repeats_are_written_before_the_last_line_of_a_process(root: logging.Logger) -> None:
    stream, ticks = io.StringIO(), Ticks()
    logs.configure(LogSettings(), stream, ticks, ticks.later)
    for _ in range(3):
        logging.getLogger("headgate.x").warning("redis is away")
    logs.write_counts()
    logging.getLogger("headgate.y").info("worker 0 stopped")
    logging.shutdown([lambda: root.handlers[0]])
    assert texts(stream) == [
        "redis is away", "redis is away (repeated 2 times)", "worker 0 stopped",
    ]  # fmt: skip


def test_repeats_are_written_by_a_thread_of_their_own(
    root: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "REPEAT_S", 0.01)
    stream = io.StringIO()
    logs.configure(LogSettings(), stream)
    for _ in range(2):
        logging.getLogger("headgate.x").warning("redis is away")
    deadline = time.monotonic() + 20
    while len(lines(stream)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert lines(stream)[1]["repeated"] == 1


def test_information_is_never_held_back(root: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure(LogSettings(), stream, Ticks())
    for _ in range(3):
        logging.getLogger("headgate.x").info("posted")
    assert len(lines(stream)) == 3
