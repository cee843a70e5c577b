"""Completion and manual pages are those of the very parser, and work in real shells."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headgate.cli
import headgate_spark.cli
from headgate import __version__
from headgate.commands.completion import SHELLS, Command, command_of
from manual_page import man_page
from support.root import ROOT
from support.terminal.terminal import Terminal

HEADGATE = command_of(headgate.cli.parser())
SPARK = command_of(headgate_spark.cli.parser())
PROGRAMS = [pytest.param(HEADGATE, id="headgate"), pytest.param(SPARK, id="headgate-spark")]


def script(root: Command, shell: str, folder: Path) -> Path:
    file = folder / f"{root.name}.{shell}"
    file.write_text(SHELLS[shell](root))
    return file


def test_every_command_that_people_use_is_in_the_tree() -> None:
    words = {" ".join(command.words) for command in HEADGATE.every()}
    assert {"headgate", "headgate top", "headgate replay create", "headgate completion"} <= words
    assert "headgate worker" not in words


def bash_completes(file: Path, *words: str, folder: Path) -> list[str]:
    """What bash offers for the last of these words, in this folder."""
    program = file.stem.replace("-", "_")
    run = (
        f'source {file}; COMP_WORDS=("$@"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); '
        f"_{program}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(
        ["bash", "--norc", "-uc", run, "bash", file.stem, *words],
        cwd=folder, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize("root", PROGRAMS)
def test_bash_offers_every_word_of_every_command(root: Command, tmp_path: Path) -> None:
    file = script(root, "bash", tmp_path)
    for command in root.every():
        offered = set(bash_completes(file, *command.words[1:], "", folder=tmp_path))
        assert {below.name for below in command.below} <= offered
        options = set(bash_completes(file, *command.words[1:], "-", folder=tmp_path))
        assert options == {name for one in command.arguments for name in one.names}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["to"], ["top", "token"]),
        (["top", "--view", ""], ["producers", "topics", "groups"]),
        (["top", "--view", "gr"], ["groups"]),
        (["top", "--view", "=", "gr"], ["groups"]),  # as bash splits --view=gr
        (["top", "--view", "="], ["producers", "topics", "groups"]),
        (["serve", "--config", "a f"], ["a file.toml"]),
        (["serve", "--config", "sub"], ["sub"]),
        (["dev", "--state", ""], ["sub"]),
        (["spool", "list", "su"], ["sub"]),
        (["replay", "create", "--name", ""], []),
        (["replay", "create", "--name", "list", "--m"], ["--mode"]),
        (["completion", "f"], ["fish"]),
        (["token", ""], ["-h", "--help"]),
    ],
)
def test_bash_offers_what_fits_the_place(
    words: list[str], offered: list[str], tmp_path: Path
) -> None:
    place = tmp_path / "here"
    place.joinpath("sub").mkdir(parents=True)
    place.joinpath("a file.toml").touch()
    file = script(HEADGATE, "bash", tmp_path)
    assert sorted(bash_completes(file, *words, folder=place)) == sorted(offered)


INTERACTIVE = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {file}; headgate() {{ :; }}\n"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -U compinit; compinit -u -D; source {file}; headgate() {{ :; }}\n",
    ),
    "fish": (["fish", "--no-config", "-i"], "source {file}; function headgate; end\n"),
}


def installed(shell: str) -> str:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    return shell


@pytest.mark.parametrize("shell", SHELLS)
def test_the_tab_key_completes(shell: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").touch()
    command, source = INTERACTIVE[installed(shell)]
    environment = {"HOME": str(tmp_path), "PS1": "$ ", "XDG_CONFIG_HOME": str(tmp_path / "x")}
    with Terminal(command, environment, columns=100) as terminal:
        terminal.type(f"cd {tmp_path}\n")
        terminal.type(source.format(file=script(HEADGATE, shell, tmp_path)))
        terminal.type("echo rea''dy\n")
        terminal.until(lambda screen: "\nready" in screen.text.replace("\r", ""))
        for typed, found in (
            ("headgate mon\t", "headgate monitor"),
            ("--onc\t", "--once"),
            ("--config min\t", "--config mine.toml"),
            ("\nheadgate top --view top\t", "--view topics"),
            ("\nheadgate replay cre\t", "replay create"),
        ):
            terminal.type(typed)
            terminal.shows(found)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("root", PROGRAMS)
def test_the_scripts_have_no_mistake_of_syntax(root: Command, shell: str, tmp_path: Path) -> None:
    command = [installed(shell), "--no-execute" if shell == "fish" else "-n"]
    file = str(script(root, shell, tmp_path))
    done = subprocess.run([*command, file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", ["headgate", "headgate_spark"])
def test_completion_command_prints_the_script(program: str, shell: str) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'gateway'}:{ROOT / 'spark'}"}
    printed = subprocess.run(
        [sys.executable, "-m", program, "completion", shell],
        capture_output=True, text=True, check=True, env=environment, timeout=60,
    ).stdout  # fmt: skip
    assert printed == SHELLS[shell](HEADGATE if program == "headgate" else SPARK)


def test_the_spark_jobs_say_their_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        headgate_spark.cli.main(["--version"])
    assert capsys.readouterr().out.startswith(f"headgate-spark {__version__} ")


@pytest.mark.parametrize("root", PROGRAMS)
def test_the_manual_page_has_every_command_and_option(root: Command) -> None:
    shown = rendered(man_page(root, "1.2.3"))
    assert "headgate 1.2.3" in shown
    for command in root.every():
        if command.below:
            continue
        assert re.search(rf"^   {' '.join(command.words)}$", shown, re.MULTILINE)
        assert all(name in shown for one in command.arguments for name in one.names)
    lines = {line.strip() for line in shown.splitlines()}  # examples stand there as they are
    assert {line.strip() for one in root.every() for line in one.text.splitlines()} <= lines


def rendered(page: str) -> str:
    if shutil.which("nroff") is None:
        pytest.skip("nroff is not installed")
    command = ["nroff", "-man", "-Tascii", "-ww", "-rLL=120n"]
    done = subprocess.run(command, input=page, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return re.sub(".\x08", "", done.stdout)


@pytest.mark.parametrize("root", PROGRAMS)
def test_mandoc_finds_no_mistake(root: Command, tmp_path: Path) -> None:
    page = tmp_path / f"{root.name}.1"
    page.write_text(man_page(root, __version__))
    command = [installed("mandoc"), "-Tlint", "-Wwarning", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert found == []
