"""Builds the package; everything but the compiled modules is declared in pyproject.toml.

mypyc compiles the hot path: the same sources, typed anyway, become C extensions. With them comes
what is written in C: reading bodies of JSON documents in one pass, encoding records, packing
commands for Redis, the text of answers. Together they save a third of the processor time of a
single event and more than half of that of one in a batch (loadtest/README.md). Without them the
very same files run as they are.

HEADGATE_NATIVE=1 builds all of it, or fails; c: what is written in C alone; 0: nothing. Not set:
all, where Python's headers are. A machine without a C compiler gets `zig cc` for the build.
"""

import contextlib
import os
import shlex
import subprocess
import sys
import sysconfig
import time
import tomllib
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, local
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ASKED = os.environ.get("HEADGATE_NATIVE", "")
TELL_S = 15.0
MISSING = (
    "headgate: cannot build the native code without {} (Debian: apt-get install gcc libc6-dev "
    "python3-dev)"
)

ROOT = "gateway/headgate"
# The code that every event passes: packages and modules. A module of such a package that cannot be
# compiled, or need not be, says so and why in its first line.
HOT = """
    audits/facts
    formats/decode
    formats/json_text
    http/answer
    http/auth
    http/connection
    http/events
    idempotency
    ingest
    kafka/lane
    kafka/lanes
    kafka/producer
    metrics/meter
    metrics/series
    metrics/sketches
    model
    native/plain_answers
    redis/client
    redis/servers
    spool/backlog
    spool/draining
    spool/spool
    suppression
"""
NOT_COMPILED = "# Not compiled: "
NATIVE = [
    Extension(
        f"headgate.native.{name}",
        [f"{ROOT}/native/{name}.c"],
        depends=sorted(map(str, Path(ROOT, "native").glob("*.h"))),
        extra_compile_args=["-O3"],
    )
    for name in (
        "_answers",
        "_depth",
        "_digests",
        "_heads",
        "_keys",
        "_records",
        "_resp",
        "_scanner",
    )
]


def has_headers() -> bool:
    return Path(sysconfig.get_path("include"), "Python.h").is_file()


def has_compiler() -> bool:
    """It makes a shared library; the base package of a compiler alone lacks the C library's."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    with TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <stdio.h>\n")
        command += ["-shared", "-fPIC", str(source), "-o", str(source.with_suffix(".so"))]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return False


def use_zig() -> bool:
    """Compile with the package's compiler, if it is there, for any machine of this kind."""
    found = find_spec("ziglang")
    if found is None or found.origin is None:
        return False
    folder = Path(found.origin).parent
    target = sysconfig.get_config_var("MULTIARCH") or f"{os.uname().machine}-linux-gnu"
    # Its own C library's headers, and only then the system's: Debian has part of Python's there.
    os.environ["CC"] = f"{folder}/zig cc -target {target} -idirafter /usr/include"
    os.environ["ZIG_GLOBAL_CACHE_DIR"] = os.environ["ZIG_LOCAL_CACHE_DIR"] = f"{folder}/cache"
    return True


def tell(line: str) -> None:
    """Show progress. pip keeps what a build writes unless it was given -v, and minutes pass: so it
    also goes to the terminal, if there is one and .ci/step.py does not show it."""
    sys.stderr.write(f"headgate: {line}\n")
    sys.stderr.flush()
    if not sys.stderr.isatty() and "HEADGATE_STEP" not in os.environ:
        with contextlib.suppress(OSError), Path("/dev/tty").open("w") as terminal:
            terminal.write(f"\r\033[Kheadgate: {line}\n")


class Progress:
    """Shows how many files are compiled, now and then. Files are added as extensions begin."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._files = self._compiled = 0
        self._told_s = time.monotonic()

    def begins(self) -> None:
        with self._lock:
            self._files += 1

    def ended(self) -> None:
        with self._lock:
            self._compiled += 1
            now_s = time.monotonic()
            is_last = self._compiled == self._files
            if is_last or now_s - self._told_s >= TELL_S:
                self._told_s = now_s
                tell(f"compiled {self._compiled} of {self._files} files")


def leave_out(what: str) -> list[Any]:
    """Nothing is built. Raises SystemExit where it was asked for."""
    said = MISSING.format(what)
    if ASKED:
        sys.exit(said)
    sys.stderr.write(f"{said}: left out, so an event takes up to twice the processor time\n")
    return []


def wanted() -> list[str]:
    """Packages that the build needs besides: pip asks for them before it builds."""
    if ASKED == "0":
        return []
    if not has_headers():
        return leave_out("Python's headers")
    declared = tomllib.loads(Path("pyproject.toml").read_text())
    groups, project = declared["dependency-groups"], declared["project"]
    packages: list[str] = [] if has_compiler() else groups["zig"]
    if ASKED != "c":  # mypyc reads the types of what the hot path calls
        packages = [*packages, *groups["build"], *project["dependencies"]]
    return packages


def extensions() -> list[object]:
    if "sdist" in sys.argv:
        return NATIVE  # or their source would not be in the archive
    if {"bdist_wheel", "build_ext"}.isdisjoint(sys.argv) or ASKED == "0":
        return []  # asked for metadata, or for the sources as they are
    if not has_headers():
        return leave_out("Python's headers")
    if not has_compiler() and not use_zig():
        return leave_out("a C compiler")
    return NATIVE if ASKED == "c" else [*hot_path(), *NATIVE]


def hot_files() -> list[str]:
    """Return the files for mypyc."""
    files = []
    for name in HOT.split():
        package = Path(ROOT, name)
        modules = sorted(package.glob("[!_]*.py")) if package.is_dir() else [Path(f"{package}.py")]
        files += [str(path) for path in modules if not path.read_text().startswith(NOT_COMPILED)]
    return files


def hot_path() -> list[Extension]:
    from mypyc.build import mypycify

    files = hot_files()
    tell(
        f"translating {len(files)} modules to C, then compiling them: a minute on two idle "
        "processors, many on busy ones (HEADGATE_NATIVE=c compiles little, 0 nothing)"
    )
    try:
        modules: list[Extension] = mypycify(
            files,
            opt_level="3",
            debug_level="0",
            group_name="headgate",
            multi_file=True,
            target_dir="build/mypyc",
        )
    except SystemExit:  # mypy has printed its errors
        if ASKED == "1" or os.environ.get("CI"):
            raise
        tell(
            "the modules above could not be translated: left out, so an event takes up to twice "
            "the processor time. Please report it as a mistake of Headgate"
        )
        return []
    return modules


class SideBySide(build_ext):
    """Compiles the files of an extension side by side, as its like: nearly all are of one.

    What was compiled before and has not changed since is taken as it is.
    """

    def build_extensions(self) -> None:
        compiler, begun = self.compiler, local()  # each extension has a thread of its own
        compile_file, compile_files = compiler._compile, compiler.compile
        headers = [*Path("build/mypyc").rglob("*.h"), *Path(ROOT, "native").glob("*.h")]
        progress = Progress()
        newest = max((one.stat().st_mtime for one in headers), default=0.0)

        def is_current(compiled: Path, source: Path) -> bool:
            if self.force or not compiled.exists():
                return False
            return compiled.stat().st_mtime > max(newest, source.stat().st_mtime)

        with ThreadPoolExecutor(os.cpu_count()) as pool:

            def compile_one(compiled: Path, *arguments: object) -> None:
                half_done = compiled.with_suffix(".half")  # whoever ends the build leaves this
                compile_file(str(half_done), *arguments)
                half_done.replace(compiled)
                progress.ended()

            def begin(name: str, source: str, *others: object) -> None:
                if not is_current(compiled := Path(name), Path(source)):
                    progress.begins()
                    begun.files.append(pool.submit(compile_one, compiled, source, *others))

            def compile_all(*arguments: object, **options: object) -> list[str]:
                begun.files = list[Future[None]]()
                objects: list[str] = compile_files(*arguments, **options)
                for file in begun.files:
                    file.result()
                return objects

            compiler._compile, compiler.compile = begin, compile_all
            super().build_extensions()


if ASKED not in ("", "0", "1", "c"):
    sys.exit(f"HEADGATE_NATIVE={ASKED}: give 1, c or 0")
setup(
    ext_modules=extensions(),
    setup_requires=wanted() if "egg_info" in sys.argv else [],
    cmdclass={"build_ext": SideBySide},
    options={"build_ext": {"parallel": os.cpu_count()}},
)
