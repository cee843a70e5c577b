"""Builds the package; everything but the compiled modules is declared in pyproject.toml.

HEADGATE_COMPILE=1 compiles the hot path with mypyc (`make compiled`): the same sources, typed
anyway, become C extensions. With them comes what is written in C: reading bodies of JSON documents
in one pass, encoding records, packing commands for Redis, the text of answers. Together they save a
third of the processor time of a single event and more than half of that of one in a batch
(loadtest/README.md). It needs a C compiler and mypy, so it is asked for and never assumed. Without
it the very same files run as they are. HEADGATE_COMPILE=c builds what is written in C alone.
"""

import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import local

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = "gateway/headgate"
# What every event passes. Protocols, options and whatever inherits from a foreign class stay out.
HOT = """
    core/admission core/formats/decode core/suppression/digest core/event core/audit_events core/ids
    core/formats/jsontext core/keys core/outcome core/publish core/reasons core/record
    core/refusal core/http/reply core/http/request core/topics/route core/scanning
    core/suppression/protocol core/suppression/reservation
    pipeline/admit pipeline/complete pipeline/gate pipeline/inbound pipeline/pipeline
    pipeline/produce pipeline/quotas pipeline/records pipeline/reports pipeline/reserve
    pipeline/turn suppression/arrivals suppression/bypass suppression/claims
    suppression/completions suppression/growth suppression/namespaces suppression/outgoing
    suppression/settlements suppression/states suppression/suppressor suppression/in_flight
    suppression/waits backends/kafka/producing/builder backends/kafka/producing/cluster
    backends/kafka/producing/lane backends/kafka/producing/lanes backends/kafka/producing/producer
    backends/redis/suppression backends/kafka/producing/rounds edge/answer edge/events
    edge/plain_post edge/known_heads edge/short_way edge/auth edge/origins
    pipeline/routes pipeline/deadlines pipeline/clock_watch native/plain_answers
    native/plain_resp stats/meter stats/series
"""
NATIVE = [
    Extension(
        f"headgate.native.{name}",
        [f"{ROOT}/native/{name}.c"],
        depends=sorted(map(str, Path(ROOT, "native").glob("*.h"))),
        extra_compile_args=["-O3"],
    )
    for name in ("_answers", "_records", "_resp", "_scanner")
]


def extensions() -> list[object]:
    if "sdist" in sys.argv:
        return NATIVE  # or their source would not be in the archive
    building = not {"bdist_wheel", "build_ext"}.isdisjoint(sys.argv)  # not asking for metadata
    asked = os.environ.get("HEADGATE_COMPILE") if building else None
    if asked == "c":
        return NATIVE
    if asked != "1":
        return []
    from mypyc.build import mypycify

    files = [f"{ROOT}/{name}.py" for name in HOT.split()]
    modules = mypycify(
        files,
        opt_level="3",
        debug_level="0",
        group_name="headgate",
        multi_file=True,
        target_dir="build/mypyc",
    )
    return [*modules, *NATIVE]


class SideBySide(build_ext):
    """Compiles the files of an extension side by side, as its like: nearly all are of one."""

    def build_extensions(self) -> None:
        compiler, begun = self.compiler, local()  # each extension has a thread of its own
        compile_file, compile_files = compiler._compile, compiler.compile
        with ThreadPoolExecutor(os.cpu_count()) as pool:

            def begin(*arguments: object) -> None:
                begun.files.append(pool.submit(compile_file, *arguments))

            def compile_all(*arguments: object, **options: object) -> list[str]:
                begun.files = list[Future[None]]()
                objects: list[str] = compile_files(*arguments, **options)
                for file in begun.files:
                    file.result()
                return objects

            compiler._compile, compiler.compile = begin, compile_all
            super().build_extensions()


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": SideBySide},
    options={"build_ext": {"parallel": os.cpu_count()}},
)
