"""deploy/spark/executor.sh: what Spark tells a pod becomes arguments of Java, each one word."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.deploy.deployment import DEPLOY

SCRIPT = DEPLOY / "spark" / "executor.sh"
# As Spark 4.0 gives them (BasicExecutorFeatureStep), beside the options of Java.
GIVEN = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.1.2.3:4040",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "2048m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_ID": "7",
    "SPARK_EXECUTOR_POD_IP": "10.1.2.4",
    "SPARK_EXECUTOR_POD_NAME": "audit-exec-7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}
SAYS = '#!/bin/sh\nprintf "%s\\n" "$SPARK_HOME" "$@"\n'


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    for name, text in (("java", SAYS), ("python", "#!/bin/sh\necho /site/pyspark\n")):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    return {**GIVEN, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}


def started(environment: dict[str, str]) -> tuple[str, list[str]]:
    """SPARK_HOME and arguments of what it becomes."""
    command = ["sh", SCRIPT, "executor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    home, *arguments = done.stdout.splitlines()
    return home, arguments


def test_every_variable_is_an_argument(environment: dict[str, str]) -> None:
    home, arguments = started(environment)
    assert home == "/site/pyspark"
    at = arguments.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend")
    assert arguments[:at] == ["-Xms2048m", "-Xmx2048m", "-cp", "/site/pyspark/jars/*"]
    pairs = dict(zip(arguments[at + 1 :: 2], arguments[at + 2 :: 2], strict=True))
    assert pairs == {
        "--driver-url": GIVEN["SPARK_DRIVER_URL"],
        "--executor-id": "7",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.1.2.4",
        "--resourceProfileId": "0",
        "--podName": "audit-exec-7",
    }


def test_options_of_java_stay_whole(environment: dict[str, str]) -> None:
    """With blanks and stars in them, and numbers of two digits."""
    options = [f"-Doption.{number}=a * b" for number in range(12)]
    named = {f"SPARK_JAVA_OPT_{number}": text for number, text in enumerate(options)}
    _, arguments = started({**environment, **named})
    assert sorted(arguments[: len(options)]) == sorted(options)
    assert arguments[len(options)] == "-Xms2048m"


@pytest.mark.parametrize("name", GIVEN)
def test_what_is_missing_is_named(environment: dict[str, str], name: str) -> None:
    del environment[name]
    with pytest.raises(subprocess.CalledProcessError) as failed:
        started(environment)
    assert name in failed.value.stderr
