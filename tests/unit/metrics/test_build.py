"""What runs is said in the same words by the command, the metrics and the log."""

import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.cli import main
from headgate.devstack.ports import LOOPBACK
from headgate.metrics.build import (
    BUILD_GAUGES,
    HOT_PATH,
    VERSION,
    WITHOUT_NATIVE,
    warn_unless_native,
)
from headgate.metrics.catalogue import METRICS
from headgate.native.chosen import CODE

CONFIG = """
[http]
port = {port}
[clusters.main]
bootstrap_servers = ["127.0.0.1:1"]
[topics.orders]
key = ["/id"]
"""


def test_the_version_says_whether_the_native_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == VERSION + "\n"
    shown = "c" if CODE == "c" else "none"
    assert f"native code: {shown}," in VERSION


def test_the_metrics_say_so_too() -> None:
    for name, rows in BUILD_GAUGES.items():
        assert [len(labels) for labels in rows] == [len(METRICS[name].labels)]
    assert [labels[0] for labels in BUILD_GAUGES["headgate_native_info"]] == [CODE]


def test_the_compiled_build_runs_what_is_written_in_c() -> None:
    assert (CODE == "c") is (os.environ.get("EXPECT_COMPILED") == "1")


@pytest.mark.parametrize(
    ("native", "hot_path", "warnings"),
    [("c", "mypyc", 0), ("c", "python", 1), ("python", "python", 1)],
)
def test_a_start_without_native_code_is_warned_of(
    native: str, hot_path: str, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    warn_unless_native(logging.getLogger("headgate.workers"), native, hot_path)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warnings


def test_serve_warns_before_it_starts_anything(tmp_path: Path) -> None:
    config = tmp_path / "headgate.toml"
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        config.write_text(CONFIG.format(port=port))
        command = [sys.executable, "-m", "headgate", "serve", "--config", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    said = (done.stdout + done.stderr).count(WITHOUT_NATIVE)
    assert said == (0 if (CODE, HOT_PATH) == ("c", "mypyc") else 1)
