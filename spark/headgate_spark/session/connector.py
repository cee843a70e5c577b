"""Spark's Kafka connector: the jars that PySpark lacks, fetched once and verified.

`python -m headgate_spark.session.connector` is a step of `make setup`. On a cluster that has the
connector (`spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.4`) none of
this is needed.
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from headgate.devstack.jars import (
    Dependency,
    JarsError,
    JarSet,
    cache_directory,
    ensure_jars,
    setup_step,
)
from headgate.devstack.java import JavaMissingError, find_java

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
    """The connector's jars, after downloading them if they are not there yet (20 s, 10 MB).

    Raises JarsError, and JavaMissingError where Spark could not run.
    """
    java = find_java(environment, "Spark")
    folder = cache_directory(environment, f"spark-kafka-{SPARK_VERSION}")
    return ensure_jars(_CONNECTOR, folder, java, say)


def _prepare(say: Callable[[str], None]) -> str:
    return f"{len(ensure_connector(os.environ, say))} jars of Spark's Kafka connector"


if __name__ == "__main__":
    sys.exit(setup_step(_prepare, (JarsError, JavaMissingError)))
