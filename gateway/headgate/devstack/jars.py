"""Kafka's jars: downloaded by the Ivy inside PySpark, verified, put in place in one rename."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
from collections.abc import Callable
from pathlib import Path

from headgate.devstack.cache import KAFKA_VERSION, locked, partial_folder

# The slf4j 1.7 binding in the version of the log4j-core that comes with Kafka: with it SLF4J is
# silent and log4j prints errors only.
LOG4J_VERSION = "2.25.4"
_LOCK = Path(__file__).with_name("kafka-jars.sha256")
_IVY_MODULE = f"""<ivy-module version="2.0">
  <info organisation="headgate" module="kafka-jars"/>
  <dependencies defaultconf="default->default">
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="{LOG4J_VERSION}"/>
    <!-- The console consumer; alone, since Kafka Connect would come with its dependencies. -->
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{KAFKA_VERSION}" transitive="false"/>
  </dependencies>
</ivy-module>
"""


class JarsError(Exception):
    """The jars could not be had, or are not the ones that are expected."""


def ensure_jars(cache: Path, java: Path, say: Callable[[str], None]) -> list[Path]:
    """Return Kafka's jars, sorted, after downloading them if they are not there yet.

    A class archive is valid for one ordered class path only, hence sorted and no wildcard.
    """
    folder = cache / "jars"
    with locked(cache):
        # Names only: hashing 45 MB at every start would cost a broker's start again.
        if {jar.name for jar in folder.glob("*.jar")} != _expected().keys():
            _download_into(folder, java, say)
    return sorted(folder.glob("*.jar"))


def _download_into(folder: Path, java: Path, say: Callable[[str], None]) -> None:
    # Everything happens beside the goal and one rename ends it, so that an interrupted download
    # leaves nothing that looks complete.
    with partial_folder(folder.parent) as temporary:
        partial = temporary / "jars"
        partial.mkdir()
        _run_ivy(temporary, partial, java, say)
        _verify(partial)
        if folder.exists():  # an older set, or one that someone has damaged
            folder.rename(temporary / "replaced")
        partial.rename(folder)


def _run_ivy(work: Path, goal: Path, java: Path, say: Callable[[str], None]) -> None:
    module = work / "ivy.xml"
    module.write_text(_IVY_MODULE)
    command = [str(java), "-cp", f"{pyspark_jars()}/*", "org.apache.ivy.Main", "-m2compatible"]
    command += ["-ivy", str(module), "-confs", "default", "-cache", str(work / "ivy")]
    command += ["-retrieve", f"{goal}/[artifact]-[revision].[ext]"]
    total = len(_expected())
    say(f"downloading Kafka {KAFKA_VERSION} ({total} jars, 45 MB)")
    fetched = 0
    log: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as ivy:
        for line in ivy.stdout or ():
            log.append(line)
            if "[SUCCESSFUL ]" in line:
                fetched += 1
                say(f"  [{fetched}/{total}] {line.split('!')[-1].split('(')[0].strip()}")
            elif "\tfound " in line:
                say(f"  resolved {line.split()[1]}")
    if ivy.returncode != 0:
        raise JarsError(f"Ivy ended with {ivy.returncode}:\n{''.join(log[-25:])}")


def pyspark_jars() -> Path:
    """Where the Ivy is that downloads. Raises JarsError."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarsError("the package pyspark is not installed: run `make setup`")
    return Path(spec.origin).parent / "jars"


def _verify(folder: Path) -> None:
    expected = _expected()
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    wrong = sorted(name for name in expected | found if expected.get(name) != found.get(name))
    if wrong:
        raise JarsError(f"missing, unexpected or altered jars: {', '.join(wrong)}")


def _expected() -> dict[str, str]:
    lines = (line.split() for line in _LOCK.read_text().splitlines())
    return {name: digest for digest, name in lines}
