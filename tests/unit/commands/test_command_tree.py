"""All commands of `headgate` follow the same rules for their output and their help."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.cli import main, parser

# A new command fails until it has a row: its kind decides which options it has.
SERVER, LIVE, CLIENT, REPORT, CHANGE, FORMAT = "server", "live", "client", "report", "change", "own"
KINDS = {
    "dev": SERVER,
    "serve": SERVER,
    "coalesce": SERVER,
    "monitor": LIVE,
    "top": LIVE,
    "init": REPORT,
    "check": REPORT,
    "config": REPORT,
    "compare": REPORT,
    "spool list": REPORT,
    "blobs gc": CHANGE,
    "spool drain": CHANGE,
    "spool drop": CHANGE,
    "spool export": FORMAT,
    "token": FORMAT,
    "completion": FORMAT,
    "replay create": CLIENT,
    "replay list": CLIENT,
    "replay show": CLIENT,
    "replay cancel": CLIENT,
    "replay pause": CLIENT,
    "replay resume": CLIENT,
    "offsets translate": CLIENT,
    "status": CLIENT,
    "groups": CLIENT,
    "pause": CLIENT,
    "resume": CLIENT,
    "log": CLIENT,
}
OUTPUT = {"--json", "--table", "--once"}
OPTIONS: dict[str, set[str]] = {
    SERVER: set(),
    LIVE: {"--json", "--once"},
    CLIENT: {"--json", "--table"},
    REPORT: {"--json"},
    CHANGE: set(),
    FORMAT: set(),
}
MORE = {"dev": {"--json"}, "monitor": {"--table"}}  # one line when ready; lines without a terminal
JSON = "print one JSON object"


def leaves(
    top: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the commands without sub-commands, except internal ones."""
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for shown in action._choices_actions:
                yield from leaves(action.choices[shown.dest], (*path, shown.dest))
            return
    yield " ".join(path), top


COMMANDS = dict(leaves(parser()))


def test_every_command_has_its_kind() -> None:
    assert set(COMMANDS) == set(KINDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_options_for_output_follow_from_the_kind(name: str) -> None:
    helps = {o: str(a.help) for a in COMMANDS[name]._actions for o in a.option_strings}
    assert OUTPUT & set(helps) == OPTIONS[KINDS[name]] | MORE.get(name, set())
    has_gateway = KINDS[name] == CLIENT or name == "top"
    assert ({"--url", "--token-file"} <= set(helps)) is has_gateway
    if "--json" in helps and name != "dev":
        assert helps["--json"].startswith(JSON)
    if "--once" in helps:
        assert helps["--once"] == "print one table and exit"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_has_examples_of_this_command_and_its_exit_codes(name: str) -> None:
    text = COMMANDS[name].epilog or ""
    examples = [line for line in text.splitlines() if line.startswith("  ")]
    assert any(f"headgate {name}" in line for line in examples)
    actions = {
        line.split()[2] for line in examples if line.startswith(f"  headgate {name.split()[0]} ")
    }
    if " " in name:  # the help of an action has no examples of others
        assert actions == {name.split()[1]}
    assert "exit codes: 0 " in text


@pytest.mark.parametrize("words", [["--json"], ["--once"], ["--once", "--json"]])
@pytest.mark.parametrize(
    ("name", "printer"), [("monitor", "serve._once"), ("top", "top._print_once")]
)
def test_live_commands_print_once_for_either_option(
    name: str, printer: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[object] = []
    monkeypatch.setattr(f"headgate.commands.{printer}", lambda *_: printed.append(name) or 0)
    config = tmp_path / "headgate.toml"
    config.write_text('[clusters.main]\nbootstrap_servers = "127.0.0.1:1"\n')
    monkeypatch.setenv("HEADGATE_CONFIG", str(config))
    assert main([name, *words]) == 0
    assert printed == [name]
