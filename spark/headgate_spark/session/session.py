"""The Spark session: a local one with the Kafka connector, or that of spark-submit."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import headgate
import headgate_spark
from headgate.devstack.java import (
    Dependency,
    JarsError,
    JarSet,
    JavaMissingError,
    cache_directory,
    ensure_jars,
    find_java,
    setup_step,
)
from headgate_spark.job.command_line import USAGE, JobError, reason_of

# ---- spark's Kafka connector: the jars that PySpark lacks, fetched once and verified
#
# `python -m headgate_spark.session.session` is a step of `make setup`. On a cluster that has the
# connector (`spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.4`) none of
# this is needed.


SPARK_VERSION = "4.0.4"
# For delegation tokens. 4.0.0 fits every 4.0.x; not every mirror of Maven Central has later ones.
_TOKEN_PROVIDER_VERSION = "4.0.0"
# The four that PySpark's own jars do not hold; without what they depend on, which it has.
_CONNECTOR = JarSet(
    f"Spark's Kafka connector {SPARK_VERSION}",
    10,
    tuple(
        Dependency(organisation, name, version, is_alone=True)
        for organisation, name, version in (
            ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
            ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", _TOKEN_PROVIDER_VERSION),
            ("org.apache.kafka", "kafka-clients", "3.9.1"),
            ("org.apache.commons", "commons-pool2", "2.12.0"),
        )
    ),
    Path(__file__).with_name("connector.sha256"),
)


def ensure_connector(environment: Mapping[str, str], say: Callable[[str], None]) -> list[Path]:
    """Return the connector's jars, which are downloaded if they are missing (20 s, 10 MB).

    Raises:
        JarsError: The jars cannot be downloaded.
        JavaMissingError: Spark could not run.
    """
    java = find_java(environment, "Spark")
    folder = cache_directory(environment, f"spark-kafka-{SPARK_VERSION}")
    return ensure_jars(_CONNECTOR, folder, java, say)


def _prepare(say: Callable[[str], None]) -> str:
    return f"{len(ensure_connector(os.environ, say))} jars of Spark's Kafka connector"


if __name__ == "__main__":
    sys.exit(setup_step(_prepare, (JarsError, JavaMissingError)))


# ---- the session


_LOOPBACK = "127.0.0.1"


def is_submitted(environment: Mapping[str, str]) -> bool:
    """Return whether spark-submit started this process, which then has a Java already."""
    return "PYSPARK_GATEWAY_PORT" in environment


def open_session(
    name: str, master: str | None, settings: Mapping[str, str], say: Callable[[str], None]
) -> SparkSession:
    """Open a session for one job. `settings` override the defaults here. Raises JobError."""
    if _is_connect(master, settings, os.environ):
        raise JobError(
            "this job cannot run over Spark Connect, since it needs Spark's driver in its own "
            "process: give --master (or spark-submit) a cluster, and unset SPARK_REMOTE",
            USAGE,
        )
    builder = SparkSession.builder.appName(name).config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.execution.arrow.pyspark.enabled", "true")
    chosen = dict(settings) if is_submitted(os.environ) else _local(master, settings, say)
    for option, value in chosen.items():
        builder = builder.config(option, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise JobError(
            f"Spark did not start: {reason_of(error)} Look at --master, --conf and what Java says "
            "above"
        ) from error


def _is_connect(
    master: str | None, settings: Mapping[str, str], environment: Mapping[str, str]
) -> bool:
    """Return whether Spark's client would use a server elsewhere, without a SparkContext here."""
    modes = (environment.get("SPARK_API_MODE"), settings.get("spark.api.mode"))
    return (
        bool(environment.get("SPARK_REMOTE") or settings.get("spark.remote"))
        or (master or settings.get("spark.master", "")).startswith("sc://")
        or "connect" in modes
    )


def _local(
    master: str | None, settings: Mapping[str, str], say: Callable[[str], None]
) -> Mapping[str, str]:
    try:
        jars = ",".join(map(str, ensure_connector(os.environ, say)))
    except (JavaMissingError, JarsError) as error:
        raise JobError(str(error)) from error
    # Workers run the very Python that has pandas and pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join(_code())
    own = {
        "spark.master": master or "local[*]",
        "spark.jars": jars,
        "spark.driver.extraClassPath": jars.replace(",", os.pathsep),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "2g",
        # What the job itself spills and shuffles is compact: few large partitions are quicker.
        "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 2)),
    }
    if (master or "local").startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        own |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    return {**own, **settings}


def _code() -> list[str]:
    """Return the folders of this package and the core, for the workers."""
    roots = [str(Path(file).parents[1]) for file in (headgate_spark.__file__, headgate.__file__)]
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return list(dict.fromkeys([*roots, *filter(None, given)]))


def parse_settings(pairs: list[str]) -> dict[str, str]:
    """Parse `--conf NAME=VALUE`, which may occur several times. Raises JobError."""
    settings = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name.startswith("spark."):
            raise JobError(f"--conf {pair}: give spark.NAME=VALUE", USAGE)
        settings[name] = value
    return settings
