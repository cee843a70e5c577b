"""Java and its jars: the search for a Java that can run Kafka and Spark, and downloads for it.

The Ivy inside PySpark downloads jars; they are verified, and put in place in one rename. `make
setup` runs this file before anything is installed.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

# Kafka 4 needs it; Spark 4.0 is built for it, and tested on 17 and 21 (its "Downloading" page).
MINIMUM_JAVA = 17
DEBIAN_PACKAGE = "openjdk-17-jre-headless"


class JavaMissingError(Exception):
    """No usable Java; the text names the package to install."""


def find_java(environment: Mapping[str, str], what: str = "Headgate's local Kafka") -> Path:
    """Return the `java` to run: the one of $JAVA_HOME if it is set, else the one on the $PATH.

    Args:
        environment: The environment variables.
        what: The program that needs Java, for the error.

    Raises:
        JavaMissingError: There is no Java, or it is older than MINIMUM_JAVA.
    """
    home = environment.get("JAVA_HOME")
    path = environment.get("PATH")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=path)
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME={home} has none" if home else "there is none on the PATH"
        raise JavaMissingError(_advice(what, where))
    major = _major_version(_version_text(java))
    if major is None or major < MINIMUM_JAVA:
        raise JavaMissingError(_advice(what, f"{java} is version {major or 'unknown'}"))
    return Path(java)


def java_identity(java: Path) -> str:
    """Return the text that names this exact Java build (a class archive fits one build only)."""
    return _version_text(str(java))


def _version_text(java: str) -> str:
    # `java -version` writes to standard error.
    return subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr


def _major_version(text: str) -> int | None:
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    first = int(match[1])
    return int(match[2] or 0) if first == 1 else first  # Java 8 has the version 1.8


def _advice(what: str, problem: str) -> str:
    return (
        f"{what} needs Java {MINIMUM_JAVA} or newer, but {problem}. "
        f"On Debian or Ubuntu: apt-get install {DEBIAN_PACKAGE}"
    )


# ---- jars


KAFKA_VERSION = "4.3.1"
PARTIAL_PREFIX = "partial-"
_PROGRESS_S = 10.0
_LAST_LINES = 20
_ADDRESS = re.compile(r"https?://\S*/")  # of a repository; errors and the log need the file only


def cache_directory(environment: Mapping[str, str], name: str = f"kafka-{KAFKA_VERSION}") -> Path:
    """Return the folder for files of this Kafka version.

    It lies below $HEADGATE_CACHE, else below the checkout's .cache, else (installed without a
    checkout) below the user's cache.
    """
    if chosen := environment.get("HEADGATE_CACHE"):
        return Path(chosen).absolute() / name
    # Sources are in the checkout, and so is the environment that `make` installs into.
    for checkout in (Path(__file__).resolve().parents[3], Path(sys.prefix).parent):
        if (checkout / "gateway" / "headgate").is_dir():
            return checkout / ".cache" / name
    return Path.home() / ".cache" / "headgate" / name


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the kernel drops it when the process dies, however it dies.

    Removes what a holder that was killed has left half done: folders named PARTIAL_PREFIX...
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for partial in folder.glob(f"{PARTIAL_PREFIX}*"):
            shutil.rmtree(partial, ignore_errors=True)
        yield


@contextmanager
def partial_folder(folder: Path) -> Iterator[Path]:
    """Make a folder beside the goal, on the same file system, for work that ends in one rename."""
    with tempfile.TemporaryDirectory(prefix=PARTIAL_PREFIX, dir=folder) as temporary:
        yield Path(temporary)


# The slf4j 1.7 binding in the version of the log4j-core that comes with Kafka: with it SLF4J is
# silent and log4j prints errors only.
LOG4J_VERSION = "2.25.4"


class JarsError(Exception):
    """The jars cannot be downloaded, or are not the expected ones."""


class Dependency(NamedTuple):
    """A dependency for Ivy; `is_alone` leaves out its own dependencies."""

    organisation: str
    name: str
    version: str
    is_alone: bool = False


class JarSet(NamedTuple):
    """Jars that belong together.

    Attributes:
        title: The name for people.
        megabytes: The size of the download, for people.
        dependencies: The dependencies that Ivy resolves.
        lock: The file with the names of the jars and their SHA-256.
    """

    title: str
    megabytes: int
    dependencies: tuple[Dependency, ...]
    lock: Path

    def sums(self) -> Mapping[str, str]:
        """Return the SHA-256 of each jar."""
        lines = (line.split() for line in self.lock.read_text().splitlines())
        return {name: digest for digest, name in lines}


KAFKA = JarSet(
    f"Kafka {KAFKA_VERSION}",
    45,
    (
        Dependency("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
        Dependency("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
        # The console consumer; alone, since Kafka Connect would come with its dependencies.
        Dependency("org.apache.kafka", "kafka-tools", KAFKA_VERSION, is_alone=True),
    ),
    Path(__file__).with_name("kafka-jars.sha256"),
)


def ensure_jars(wanted: JarSet, folder: Path, java: Path, say: Callable[[str], None]) -> list[Path]:
    """Return the jars, sorted, after downloading them into `folder` if they are not there yet.

    A class archive is valid for one ordered class path only, hence sorted and no wildcard. Raises
    JarsError.
    """
    if not _is_complete(wanted, folder):
        with locked(folder.parent):
            if not _is_complete(wanted, folder):  # another process may have had the lock
                _download_into(folder, wanted, java, say)
    return sorted(folder.glob("*.jar"))


def _is_complete(wanted: JarSet, folder: Path) -> bool:
    # Names only: hashing 45 MB at every start would cost a broker's start again.
    return {jar.name for jar in folder.glob("*.jar")} == wanted.sums().keys()


def _download_into(folder: Path, wanted: JarSet, java: Path, say: Callable[[str], None]) -> None:
    # Everything happens beside the goal and one rename ends it, so that an interrupted download
    # leaves nothing that looks complete.
    with partial_folder(folder.parent) as temporary:
        partial = temporary / "jars"
        partial.mkdir()
        _run_ivy(temporary, partial, wanted, java, say)
        _verify(partial, wanted.sums())
        if folder.exists():  # an older or damaged set
            folder.rename(temporary / "replaced")
        partial.rename(folder)


def _run_ivy(
    work: Path, goal: Path, wanted: JarSet, java: Path, say: Callable[[str], None]
) -> None:
    module = work / "ivy.xml"
    module.write_text(_ivy_module(wanted))
    command = [str(java), "-cp", f"{pyspark_folder()}/jars/*", "org.apache.ivy.Main"]
    command += ["-m2compatible", "-ivy", str(module), "-confs", "default"]
    command += ["-cache", str(work / "ivy"), "-retrieve", f"{goal}/[artifact]-[revision].[ext]"]
    total = len(wanted.sums())
    say(f"downloading {wanted.title} ({total} jars, {wanted.megabytes} MB)")
    resolved, fetched, next_s = 0, 0, time.monotonic() + _PROGRESS_S
    is_verbose = os.environ.get("VERBOSE", "") not in {"", "0"}
    log: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as ivy:
        for line in ivy.stdout or ():
            log.append(_ADDRESS.sub("", line))
            resolved += "\tfound " in line
            fetched += "[SUCCESSFUL ]" in line
            if is_verbose:
                say(f"  {log[-1].strip()}")
            elif time.monotonic() >= next_s:
                say(f"  {fetched or resolved} of {total} {'downloaded' if fetched else 'found'}")
                next_s = time.monotonic() + _PROGRESS_S
    if ivy.returncode != 0:
        full = goal.parents[1] / "ivy.log"
        full.write_text("".join(log))
        last = "".join(log[-_LAST_LINES:])
        raise JarsError(f"Ivy ended with {ivy.returncode}:\n{last}The full log is {full}")


def _ivy_module(wanted: JarSet) -> str:
    listed = "".join(
        f'<dependency org="{each.organisation}" name="{each.name}" rev="{each.version}" '
        f'transitive="{str(not each.is_alone).lower()}"/>'
        for each in wanted.dependencies
    )
    return (
        '<ivy-module version="2.0"><info organisation="headgate" module="jars"/>'
        f'<dependencies defaultconf="default->default">{listed}</dependencies></ivy-module>'
    )


def setup_step(
    prepare: Callable[[Callable[[str], None]], str], missing: tuple[type[Exception], ...]
) -> int:
    """Run a step of `make setup` as a command.

    Args:
        prepare: Takes a callback for progress, and returns a description of the result.
        missing: The exceptions of a failed preparation, with texts for people.

    Returns:
        The exit code.
    """
    try:
        ready = prepare(_show)
    except missing as error:
        _show(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        _show("interrupted: the next `make setup` goes on")
        return 1
    _show(f"ready: {ready}")
    return 0


def _show(line: str) -> None:
    sys.stderr.write(f"setup: {line}\n")
    sys.stderr.flush()


def pyspark_folder() -> Path:
    """Return the folder of PySpark, which contains Ivy. Raises JarsError."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarsError("the package pyspark is not installed: pip install 'headgate[dev]'")
    return Path(spec.origin).parent


def _verify(folder: Path, sums: Mapping[str, str]) -> None:
    jars = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    faulty = sorted(name for name in sums.keys() | jars if sums.get(name) != jars.get(name))
    if faulty:
        raise JarsError(f"missing, unexpected or altered jars: {', '.join(faulty)}")


def main(environment: Mapping[str, str]) -> int:
    """Check, and print the problem: the first step of `make setup`."""
    try:
        find_java(environment)
    except JavaMissingError as missing:
        sys.stderr.write(f"setup: {missing}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ))
