"""Builds the peers that are not Python, with the toolchain that is here, into build/peers."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
OUT = HERE.parents[1] / "build" / "peers"


RUST = OUT / "rust"


class Build(NamedTuple):
    """`command` is run in `folder` after `prepare`: doing both again is cheap.

    hint: how to get the program that it needs.
    """

    folder: Path
    command: tuple[str, ...]
    binary: Path
    hint: str
    prepare: Callable[[], None] = lambda: None


def _lock_crates() -> None:
    """Copy the crate to build/peers and lock it: `crates.lock`, and of each crate the source that
    this machine's Cargo names. Raises CalledProcessError."""
    shutil.copytree(HERE / "rust", RUST, dirs_exist_ok=True)
    lock = RUST / "Cargo.lock"
    lock.unlink(missing_ok=True)
    command = ("cargo", "generate-lockfile")
    subprocess.run(command, cwd=RUST, capture_output=True, text=True, check=True)
    source = next(line for line in lock.read_text().splitlines() if line.startswith("source = "))
    locked = (HERE / "rust" / "crates.lock").read_text()
    lock.write_text(locked.replace("\nchecksum = ", f"\n{source}\nchecksum = "))


BUILDS = {
    "rust": Build(
        RUST,
        ("cargo", "build", "--release", "--locked", "--target-dir", str(OUT / "cargo")),
        OUT / "cargo" / "release" / "peer-rust",
        "Rust 1.85 or newer, gcc, g++ and make: https://rustup.rs",
        _lock_crates,
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
    try:
        build.prepare()
        subprocess.run(build.command, cwd=build.folder, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no output"])[-1]
        say(f"{name} is left out: {last} (it needs {build.hint})")
        return None
    return build.binary
