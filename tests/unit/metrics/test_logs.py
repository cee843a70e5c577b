"""The log's lines."""

import io
import logging
from collections.abc import Iterator

import orjson
import pytest

from headgate.config.settings import LogSettings
from headgate.metrics import logs


class Ticks:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = before
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in stream.getvalue().splitlines()]


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
    logs.configure(LogSettings(), stream, ticks)
    log = logging.getLogger("headgate.x")
    for _ in range(500):
        log.warning("redis is away")
    log.warning("something else")
    assert [line["text"] for line in lines(stream)] == ["redis is away", "something else"]
    ticks.now = logs.REPEAT_S + 1
    log.info("time goes by")
    assert [(line["text"], line.get("repeated")) for line in lines(stream)[2:]] == [
        ("redis is away", 499),
        ("time goes by", None),
    ]
    log.warning("redis is away")
    assert lines(stream)[-1]["text"] == "redis is away"
    log.warning("redis is away")
    root.handlers[0].close()
    assert lines(stream)[-1]["repeated"] == 1


def test_information_is_never_held_back(root: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure(LogSettings(), stream, Ticks())
    for _ in range(3):
        logging.getLogger("headgate.x").info("posted")
    assert len(lines(stream)) == 3
