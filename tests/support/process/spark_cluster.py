"""A Spark cluster of its own processes: a standalone master and one worker, on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

import headgate
import headgate_spark
from headgate.devstack.java import pyspark_folder
from headgate.devstack.ports import LOOPBACK
from headgate_spark.session.session import ensure_connector
from support.process.stack import free_port

DEADLINE_S = 60.0
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class SparkCluster:
    """url: what `spark-submit --master` takes."""

    url: str
    worker: subprocess.Popen[bytes]

    def executors(self) -> list[psutil.Process]:
        """The executors that run now."""
        children = psutil.Process(self.worker.pid).children(recursive=True)
        return [one for one in children if _is_executor(one)]


def _is_executor(process: psutil.Process) -> bool:
    try:
        # the worker's launcher script has the same arguments
        return process.name() == "java" and _EXECUTOR in process.cmdline()
    except psutil.Error:
        return False


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Start a master and a worker with two cores; their logs are in `folder`."""
    port = free_port()
    url = f"spark://{LOOPBACK}:{port}"
    master = ["master.Master", "--host", LOOPBACK, "--port", str(port), "--webui-port", "0"]
    worker = ["worker.Worker", "--host", LOOPBACK, "--cores", "2", "--memory", "2g"]
    worker += ["--webui-port", "0", "--work-dir", str(folder / "work"), url]
    with ExitStack() as ending:
        _start(folder / "master.log", master, ending)
        yield SparkCluster(url, _start(folder / "worker.log", worker, ending))


def _start(log: Path, arguments: Sequence[str], ending: ExitStack) -> subprocess.Popen[bytes]:
    program, *options = arguments
    command = [_program("spark-class"), f"org.apache.spark.deploy.{program}", *options]
    # a worker that goes on without its master would never end by itself
    environment = {**os.environ, "SPARK_LOCAL_IP": LOOPBACK, "SPARK_NO_DAEMONIZE": "1"}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    ending.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    every = [*psutil.Process(process.pid).children(recursive=True), process]
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs([one for one in every if isinstance(one, psutil.Process)], 20)
    for one in alive:
        one.kill()


def submit(
    cluster: SparkCluster, script: Path, archive: Path, arguments: Sequence[str], log: Path
) -> subprocess.Popen[bytes]:
    """`spark-submit` of a job with two executors, without a network: the jars are there."""
    jars = ensure_connector(os.environ, lambda line: None)
    command = [
        _program("spark-submit"),
        "--master",
        cluster.url,
        "--jars",
        ",".join(map(str, jars)),
    ]
    command += ["--driver-class-path", ":".join(map(str, jars)), "--py-files", str(archive)]
    settings = {
        "spark.executor.cores": "1",
        "spark.executor.memory": "640m",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
    }
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    # a Python with numpy and pyarrow; the packages themselves come with --py-files
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": LOOPBACK}
    with log.open("wb") as out:
        return subprocess.Popen(
            [*command, str(script), *arguments], stdout=out, stderr=out, env=environment
        )


def _program(name: str) -> str:
    return str(pyspark_folder() / "bin" / name)


def archive_of_the_code(goal: Path) -> Path:
    """What `--py-files` takes: both packages."""
    with zipfile.ZipFile(goal, "w") as archive:
        for package in (headgate, headgate_spark):
            folder = Path(package.__file__).parent
            for file in sorted(folder.rglob("*")):
                if file.suffix != ".pyc" and file.is_file():
                    archive.write(file, file.relative_to(folder.parent))
    return goal
