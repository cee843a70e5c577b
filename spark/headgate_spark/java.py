"""Finds the Java that Spark runs on, and says what is wrong with it before Spark does."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

# Spark 4.0 is built for Java 17 and tested on 17 and 21 (its "Downloading" page).
MINIMUM_JAVA = 17
_DEBIAN_PACKAGE = "openjdk-17-jre-headless"


class JavaError(Exception):
    """No Java, or one that Spark cannot run on; the text says what to install."""


def find_java(environment: Mapping[str, str]) -> Path:
    """The `java` of $JAVA_HOME, else the one on $PATH. Raises JavaError."""
    home = environment.get("JAVA_HOME")
    path = environment.get("PATH")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=path)
    if found is None or not Path(found).exists():
        where = f"JAVA_HOME={home} has none" if home else "there is none on the PATH"
        raise JavaError(_advice(where))
    done = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    major = major_version(done.stderr)  # it writes to standard error
    if major is None or major < MINIMUM_JAVA:
        raise JavaError(_advice(f"{found} is version {major or 'unknown'}"))
    return Path(found)


def major_version(text: str) -> int | None:
    """The major version in what `java -version` says; None when it says none."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    first = int(match[1])
    return int(match[2] or 0) if first == 1 else first  # 1.8 is how Java 8 calls itself


def _advice(problem: str) -> str:
    return (
        f"Spark needs Java {MINIMUM_JAVA} or newer, but {problem}. "
        f"On Debian or Ubuntu: apt-get install {_DEBIAN_PACKAGE}"
    )
