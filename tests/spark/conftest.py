"""One Spark session for all tests of a worker: a JVM takes seconds to start."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate_spark.session.session import open_session
from support import scale
from support.process import spark_start


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves its sockets to the garbage collector."""
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            ignored = "ignore::pytest.PytestUnraisableExceptionWarning"
            item.add_marker(pytest.mark.filterwarnings(ignored))
            item.add_marker(pytest.mark.timeout(900))  # where others use the cores, too


@pytest.fixture(autouse=True)
def no_garbage() -> Iterator[None]:
    """What a test here leaves is found here, not in the next test of another folder."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes what each of its tasks did."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(event_log: Path) -> Iterator[SparkSession]:
    """Spark on two cores, in a process of its own that ends with the tests."""
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": event_log.as_uri(),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        # a short life: compiling less is quicker, and leaves the cores to other tests
        "spark.driver.extraJavaOptions": spark_start.QUICK,
    }
    if not scale.is_full():
        # Compiling a query takes longer than a small table does; `make test-full` compiles them.
        settings["spark.sql.codegen.wholeStage"] = "false"
        settings["spark.sql.codegen.factoryMode"] = "NO_CODEGEN"
    session = open_session("tests", "local[2]", settings, say=lambda line: None)
    yield session
    session.stop()
