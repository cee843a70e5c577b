"""Builds the peers that are not Python, with the toolchain that is here, into build/peers."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
OUT = HERE.parents[1] / "build" / "peers"


class Build(NamedTuple):
    """`command` is run in `folder`; doing it again is cheap. `hint`: how to get its program."""

    folder: Path
    command: tuple[str, ...]
    binary: Path
    hint: str


BUILDS = {
    "rust": Build(
        HERE / "rust",
        ("cargo", "build", "--release", "--locked", "--target-dir", str(OUT / "cargo")),
        OUT / "cargo" / "release" / "peer-rust",
        "Rust 1.85 or newer, gcc, g++ and make: https://rustup.rs",
    ),
    "pixy": Build(
        HERE / "pixy",
        ("go", "build", "-trimpath", "-o", str(OUT / "pixy"), "github.com/mailgun/kafka-pixy"),
        OUT / "pixy",
        "Go 1.24 or newer: https://go.dev/dl",
    ),
}


def built(
    name: str,
    say: Callable[[str], None],
    find: Callable[[str], str | None] = shutil.which,
) -> Path | None:
    """The binary; None, and a line that says why, where it cannot be built."""
    build = BUILDS[name]
    if find(build.command[0]) is None:
        say(f"{name} is left out: no {build.command[0]} ({build.hint})")
        return None
    say(f"building {name}, minutes at the first time")
    done = subprocess.run(build.command, cwd=build.folder, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        say(f"{name} is left out: {last} (it needs {build.hint})")
        return None
    return build.binary
