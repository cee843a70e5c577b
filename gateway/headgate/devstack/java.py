"""The search for a Java that can run Kafka and Spark."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

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


def main(environment: Mapping[str, str]) -> int:
    """Check, and print the problem: the first step of `make setup`."""
    try:
        find_java(environment)
    except JavaMissingError as missing:
        sys.stderr.write(f"setup: {missing}\n")
        return 1
    return 0


if __name__ == "__main__":
    import os

    sys.exit(main(os.environ))
