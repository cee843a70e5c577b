"""Under CI a test that needs real Kafka must run: skipping it is a failure."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest


def _is_ci() -> bool:
    return os.environ.get("CI") == "true"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a test marked `kafka` into a failure."""
    report = yield
    is_expected = hasattr(report, "wasxfail")
    if _is_ci() and report.skipped and not is_expected and item.get_closest_marker("kafka"):
        report.longrepr = f"CI: a test that needs real Kafka was skipped: {report.longrepr}"
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn the skip of a whole module into a failure: its marks cannot be known."""
    report = yield
    if _is_ci() and report.skipped:
        report.longrepr = f"CI: a module was skipped: {report.longrepr}"
        report.outcome = "failed"
    return report
