"""What runs is said in the same words by the command, the metrics and the log."""

import os

import pytest

from headgate.cli import main
from headgate.native.chosen import CODE
from headgate.telemetry.build import BUILD_GAUGES, VERSION
from headgate.telemetry.catalogue import METRICS


def test_the_version_says_whether_the_native_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == VERSION + "\n"
    assert f"native code: {CODE}," in VERSION


def test_the_metrics_say_so_too() -> None:
    for name, rows in BUILD_GAUGES.items():
        assert [len(labels) for labels in rows] == [len(METRICS[name].labels)]
    assert [labels[0] for labels in BUILD_GAUGES["headgate_native_info"]] == [CODE]


def test_the_compiled_build_runs_what_is_written_in_c() -> None:
    assert (CODE == "c") is (os.environ.get("EXPECT_COMPILED") == "1")
