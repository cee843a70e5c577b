"""Jars are put in place all at once, and only if they are the ones that are expected."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from headgate.devstack.java import Dependency, JarsError, JarSet, ensure_jars

CONTENT = b"a jar\n"


def jar_set(folder: Path, content: bytes = CONTENT) -> JarSet:
    lock = folder / "jars.sha256"
    lock.write_text(f"{hashlib.sha256(content).hexdigest()}  one-1.0.jar\n")
    return JarSet("a test", 1, (Dependency("org.one", "one", "1.0", is_alone=True),), lock)


def java(folder: Path) -> Path:
    """Instead of Ivy: one jar in the folder of the pattern that follows `-retrieve`."""
    program = folder / "java"
    program.write_text(
        '#!/bin/sh\nwhile [ "$1" != "-retrieve" ]; do shift; done\n'
        'echo "a jar" > "${2%/*}/one-1.0.jar"\n'
    )
    program.chmod(0o755)
    return program


def test_jars_are_downloaded_once(tmp_path: Path) -> None:
    said: list[str] = []
    wanted, folder = jar_set(tmp_path), tmp_path / "cache" / "jars"
    for _ in range(2):
        jars = ensure_jars(wanted, folder, java(tmp_path), said.append)
        assert jars == [folder / "one-1.0.jar"]
    assert said == ["downloading a test (1 jars, 1 MB)"]
    (folder / "other.jar").write_bytes(b"")  # of an older set
    assert ensure_jars(wanted, folder, java(tmp_path), said.append) == jars
    assert [one.name for one in folder.parent.iterdir() if one.name != ".lock"] == ["jars"]


def test_a_failed_download_names_its_log_and_no_address(tmp_path: Path) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho '  tried https://jars.test/maven/one-1.0.jar'\nexit 1\n")
    program.chmod(0o755)
    log = tmp_path / "cache" / "ivy.log"
    with pytest.raises(JarsError) as failed:
        ensure_jars(jar_set(tmp_path), tmp_path / "cache" / "jars", program, lambda _: None)
    assert str(failed.value).endswith(f"The full log is {log}")
    for text in (str(failed.value), log.read_text()):
        assert "tried one-1.0.jar" in text
        assert "jars.test" not in text


def test_an_altered_jar_is_not_put_in_place(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "jars"
    with pytest.raises(JarsError, match=r"altered jars: one-1\.0\.jar"):
        ensure_jars(jar_set(tmp_path, b"another"), folder, java(tmp_path), lambda _: None)
    assert not folder.exists()
