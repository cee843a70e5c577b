"""Builds the package; everything but the compiled modules is declared in pyproject.toml.

HEADGATE_COMPILE=1 compiles the hot path with mypyc (`make compiled`): the same sources, typed
anyway, become C extensions. With them comes what is written in C: reading bodies of JSON documents
in one pass, encoding records, packing commands for Redis, the text of answers. Together they save a
third of the processor time of a single event and more than half of that of one in a batch
(loadtest/README.md). It needs a C compiler and mypy, so it is asked for and never assumed. Without
it the very same files run as they are.
"""

import os
import sys

from setuptools import Extension, setup

ROOT = "gateway/headgate"
# What every event passes. Protocols, options and whatever inherits from a foreign class stay out.
HOT = """
    core/admission core/formats/decode core/suppression/digest core/event core/facts core/ids
    core/formats/jsontext core/keys core/outcome core/publish core/reasons core/record
    core/http/reply core/http/request core/route core/scanning core/suppression/protocol endings
    inbound ingest onward placing pipeline/quotas ticket suppression/arrivals suppression/bypass
    suppression/claims suppression/ends suppression/growth suppression/namespaces
    suppression/outgoing suppression/settlements suppression/states suppression/suppressor
    suppression/underway suppression/waits backends/kafka/producing/builder
    backends/kafka/producing/cluster backends/kafka/producing/lane
    backends/kafka/producing/lanes backends/kafka/producing/producer backends/redis/suppression
    backends/kafka/producing/rounds edge/answer edge/events edge/plain_post
    native/resp stats/meter stats/series
"""
SCANNER = Extension(
    "headgate.native._scanner",
    [f"{ROOT}/native/_scanner.c"],
    depends=[f"{ROOT}/native/{name}.h" for name in ("_blake2", "_json", "_text")],
    extra_compile_args=["-O3"],
)
RECORDS = Extension(
    "headgate.native._records",
    [f"{ROOT}/native/_records.c"],
    depends=[f"{ROOT}/native/{name}.h" for name in ("_batch", "_crc32c")],
    extra_compile_args=["-std=c11", "-O3"],
)
RESP = Extension(
    "headgate.native._resp",
    [f"{ROOT}/native/_resp.c"],
    extra_compile_args=["-std=c11", "-O3"],
)
ANSWERS = Extension(
    "headgate.native._answers",
    [f"{ROOT}/native/_answers.c"],
    extra_compile_args=["-std=c11", "-O3"],
)
NATIVE = [SCANNER, RECORDS, RESP, ANSWERS]


def extensions() -> list[object]:
    if "sdist" in sys.argv:
        return NATIVE  # or their source would not be in the archive
    building = not {"bdist_wheel", "build_ext"}.isdisjoint(sys.argv)  # not asking for metadata
    if os.environ.get("HEADGATE_COMPILE") != "1" or not building:
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


setup(ext_modules=extensions(), options={"build_ext": {"parallel": os.cpu_count()}})
