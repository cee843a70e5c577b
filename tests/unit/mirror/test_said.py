"""What the jobs say to people."""

from __future__ import annotations

import io
import time
from contextlib import nullcontext

import pytest
from aiokafka.errors import KafkaConnectionError, NodeNotReadyError

from headgate.commands.terminal import PLAIN, ProgressLine
from headgate_spark.copying.reader import ReadError
from headgate_spark.job.command_line import JobError, in_words
from headgate_spark.job.progress import Progress
from headgate_spark.mirror.verify import Verified, sentence


@pytest.mark.parametrize(("is_quiet", "count"), [(False, 1), (True, 0)])
def test_a_step_says_how_long_it_took_unless_it_is_to_be_quiet(is_quiet: bool, count: int) -> None:
    out = io.StringIO()
    line = ProgressLine(out, PLAIN, time.monotonic, lambda: 80, nullcontext(), is_quiet=is_quiet)
    with Progress(3, line).step("counting keys"):
        pass
    assert out.getvalue().count("[1/3] counting keys: 0.") == count


def test_a_partition_that_was_compared() -> None:
    one = Verified("orders", 2, (0, 9), (0, 9), 1, 0, 0, 0, 0, 0, ())
    assert sentence(one) == "orders partition 2: 1 record compared, all identical"
    bad = one._replace(compared=1234, differing=2)
    assert sentence(bad) == "orders partition 2: 1,234 records compared; 2 differ"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError(), "nothing came in time"),
        (TimeoutError("10 s"), "TimeoutError: 10 s"),
        (NodeNotReadyError("no leader"), "NodeNotReadyError: no leader"),
        (KafkaConnectionError(), "KafkaConnectionError"),
        (AssertionError(), "AssertionError"),
        (ReadError("cluster main: gone"), "cluster main: gone"),
        (JobError("--out x"), "--out x"),
    ],
)
def test_every_error_says_something(error: Exception, text: str) -> None:
    assert in_words(error) == text
