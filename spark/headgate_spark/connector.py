"""Spark's Kafka connector: the jars that PySpark lacks, fetched once by its own Ivy and verified.

`python -m headgate_spark.connector` is a step of `make setup`. On a cluster that has the
connector (`spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0`) none of
this is needed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from headgate_spark.java import JavaError, find_java

SPARK_VERSION = "4.0.0"
_LOCK = Path(__file__).with_name("connector.sha256")
# The four that PySpark's own jars do not hold; without what they depend on, which it has.
_DEPENDENCIES = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", SPARK_VERSION),
    ("org.apache.kafka", "kafka-clients", "3.9.0"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)


class ConnectorError(Exception):
    """The jars could not be had, or are not the ones that are expected; the text says more."""


def connector_folder(environment: Mapping[str, str]) -> Path:
    """Where the jars are kept: below $HEADGATE_CACHE, the checkout's .cache, or the user's."""
    name = f"spark-kafka-{SPARK_VERSION}"
    if chosen := environment.get("HEADGATE_CACHE"):
        return Path(chosen).absolute() / name
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").exists():
        return checkout / ".cache" / name
    return Path.home() / ".cache" / "headgate" / name


def ensure_connector(environment: Mapping[str, str], say: Callable[[str], None]) -> list[Path]:
    """The connector's jars, after downloading them if they are not there yet (20 s, 10 MB).

    Raises ConnectorError and JavaError.
    """
    folder = connector_folder(environment)
    if {jar.name for jar in folder.glob("*.jar")} != _expected().keys():
        _download(folder, find_java(environment), say)
    return sorted(folder.glob("*.jar"))


def _download(folder: Path, java: Path, say: Callable[[str], None]) -> None:
    say(f"downloading Spark's Kafka connector {SPARK_VERSION} ({len(_DEPENDENCIES)} jars, 10 MB)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # One rename ends it: an interrupted download leaves nothing that looks complete.
    with tempfile.TemporaryDirectory(prefix="partial-", dir=folder.parent) as temporary:
        work, goal = Path(temporary), Path(temporary) / "jars"
        _run_ivy(work, goal, java)
        _verify(goal)
        if folder.exists():
            folder.rename(work / "replaced")
        goal.rename(folder)


def _run_ivy(work: Path, goal: Path, java: Path) -> None:
    module = work / "ivy.xml"
    wanted = "".join(
        f'<dependency org="{org}" name="{name}" rev="{version}" transitive="false"/>'
        for org, name, version in _DEPENDENCIES
    )
    module.write_text(
        '<ivy-module version="2.0"><info organisation="headgate" module="spark-kafka"/>'
        f'<dependencies defaultconf="default->default">{wanted}</dependencies></ivy-module>'
    )
    command = [str(java), "-cp", f"{pyspark_folder()}/jars/*", "org.apache.ivy.Main"]
    command += ["-m2compatible", "-ivy", str(module), "-confs", "default"]
    command += ["-cache", str(work / "ivy")]
    command += ["-retrieve", f"{goal}/[artifact]-[revision].[ext]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not goal.exists():
        last = "\n".join(done.stdout.splitlines()[-25:])
        raise ConnectorError(f"Ivy ended with {done.returncode}:\n{last}\n{done.stderr}")


def pyspark_folder() -> Path:
    """Where PySpark is installed. Raises ConnectorError when it is not."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConnectorError("the package pyspark is not installed: pip install 'headgate[spark]'")
    return Path(spec.origin).parent


def _verify(folder: Path) -> None:
    expected = _expected()
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    wrong = sorted(name for name in expected | found if expected.get(name) != found.get(name))
    if wrong:
        raise ConnectorError(f"missing, unexpected or altered jars: {', '.join(wrong)}")


def _expected() -> dict[str, str]:
    lines = (line.split() for line in _LOCK.read_text().splitlines())
    return {name: digest for digest, name in lines}


def main() -> int:
    """Fetch what is missing: the step of `make setup`."""
    try:
        jars = ensure_connector(os.environ, _say)
    except (ConnectorError, JavaError) as error:
        _say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        _say("interrupted: the next `make setup` goes on")
        return 1
    _say(f"ready: {len(jars)} jars of Spark's Kafka connector")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"setup: {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
