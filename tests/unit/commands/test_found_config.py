"""Commands find the configuration file, name it, and help after a misspelled word."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate import cli
from headgate.cli import main
from headgate.commands import command_line
from headgate_spark import cli as spark_cli

CONFIG = '[clusters.main]\nbootstrap_servers = "127.0.0.1:9"\n[topics.orders]\n'
FINDERS = ["serve", "check", "config", "init", "coalesce", "monitor", "blobs gc", "compare a b"]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADGATE_CONFIG", raising=False)
    monkeypatch.setattr(command_line, "SYSTEM_FILE", tmp_path / "etc" / "headgate.toml")


def written(file: Path, port: int) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{CONFIG}[http]\nport = {port}\n")
    return file


def test_places_are_tried_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--config, then HEADGATE_CONFIG, then ./headgate.toml, then /etc/headgate/headgate.toml."""
    system = written(tmp_path / "etc" / "headgate.toml", 8001)
    assert main(["config"]) == 0
    shown = capsys.readouterr()
    assert "port = 8001 " in shown.out
    assert f"configuration file: {system}\n" in shown.err

    written(tmp_path / "headgate.toml", 8002)
    assert main(["config"]) == 0
    shown = capsys.readouterr()
    assert "port = 8002 " in shown.out
    assert "configuration file: headgate.toml\n" in shown.err

    named = written(tmp_path / "named.toml", 8003)
    monkeypatch.setenv("HEADGATE_CONFIG", str(named))
    assert main(["config"]) == 0
    shown = capsys.readouterr()
    assert "port = 8003 " in shown.out
    assert f"configuration file: {named} (HEADGATE_CONFIG)\n" in shown.err

    given = written(tmp_path / "given.toml", 8004)
    for option in ("-c", "--config"):
        assert main(["config", option, str(given)]) == 0
        shown = capsys.readouterr()
        assert "port = 8004 " in shown.out
        assert shown.err == ""


@pytest.mark.parametrize("command", FINDERS)
def test_without_any_file_the_places_are_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == 2
    shown = capsys.readouterr().err
    for place in ("HEADGATE_CONFIG", "./headgate.toml", str(tmp_path / "etc" / "headgate.toml")):
        assert place in shown
    assert "--config" in shown


def test_without_any_file_the_message_names_a_command_that_makes_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check"]) == 2
    assert "headgate config --reference > headgate.toml" in capsys.readouterr().err
    assert main(["check", "-c", "missing.toml"]) == 2
    shown = capsys.readouterr()
    assert "headgate config --reference > headgate.toml" in shown.err + shown.out
    assert main(["config", "--reference"]) == 0
    Path("headgate.toml").write_text(capsys.readouterr().out)
    assert main(["check"]) == 0


def test_a_file_of_the_environment_that_is_missing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next place is not tried: the user meant this file."""
    written(tmp_path / "headgate.toml", 8002)
    monkeypatch.setenv("HEADGATE_CONFIG", "elsewhere.toml")
    assert main(["config"]) == 2
    assert "elsewhere.toml" in capsys.readouterr().err


def test_compare_takes_brokers_instead_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path / "headgate.toml", 8002)
    assert main(["compare", "no/a", "b"]) == 2  # read, for its clusters
    shown = capsys.readouterr().err
    assert "configuration file: headgate.toml\n" in shown
    assert "no/a: no cluster no in headgate.toml: main" in shown
    assert main(["compare", "a", "b", "--bootstrap-servers", "127.0.0.1:9"]) == 1
    assert "configuration file" not in capsys.readouterr().err


def test_check_and_the_reference_say_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path / "headgate.toml", 8002)
    assert main(["check"]) == 0
    assert "headgate.toml is valid" in capsys.readouterr().out
    assert main(["config", "--reference"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("srve", "serve"),
        ("chekc --connect", "check"),
        ("replay craete --topic t", "create"),
        ("spool lst x", "list"),
        ("serve --workres 3", "--workers"),
        ("serve -c f --abandon-spol", "--abandon-spool"),
        ("replay create --topc t", "--topic"),
        ("offsets translate --topic t --to backfil 0:1", "backfill"),
        ("dev --demmo", "--demo"),
        ("--verson", "--version"),
    ],
)
def test_a_misspelled_word_is_answered_with_the_nearest(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(typed.split())
    assert ended.value.code == 2
    assert f'Did you mean "{meant}"?' in capsys.readouterr().err


@pytest.mark.parametrize(("typed", "meant"), [("mirrr", "mirror"), ("audit --outt x", "--out")])
def test_so_is_a_misspelled_word_of_a_spark_job(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        spark_cli.main(typed.split())
    assert f'Did you mean "{meant}"?' in capsys.readouterr().err


def test_an_option_that_is_like_no_other_gets_no_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--where", "x"])
    shown = capsys.readouterr().err
    assert "Did you mean" not in shown
    assert "See `headgate serve --help`" in shown


@pytest.mark.parametrize("typed", ["xyzzy", "bogus"])
def test_an_unknown_command_names_all(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([typed])
    shown = capsys.readouterr().err
    assert typed in shown
    assert "Did you mean" not in shown
    assert all(name in shown for name in cli.COMMANDS if name != "worker")
    assert "worker" not in shown


@pytest.mark.parametrize("name", ["audit --out x", "mirror", "verify", "replay"])
def test_spark_jobs_find_the_same_file(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark_cli.main(name.split()) == 2
    assert "./headgate.toml" in capsys.readouterr().err
    (tmp_path / "headgate.toml").write_text("[clusters.main]\n")
    assert spark_cli.main(name.split()) == 2
    shown = capsys.readouterr().err
    assert "configuration file: headgate.toml\n" in shown
    assert "bootstrap_servers" in shown


@pytest.mark.parametrize("group", ["", "replay", "spool", "offsets", "blobs"])
def test_a_command_that_needs_another_word_prints_its_help(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as asked:
        main([*group.split(), "--help"])
    assert asked.value.code == 0
    help_text = capsys.readouterr().out
    assert "examples:" in help_text
    with pytest.raises(SystemExit) as ended:
        main(group.split())
    shown = capsys.readouterr()
    assert (ended.value.code, shown.out, shown.err) == (2, "", help_text)
    with pytest.raises(SystemExit) as helped:
        main(["help", *group.split()])
    assert (helped.value.code, capsys.readouterr().out) == (0, help_text)


def test_help_of_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    for run, name in ((main, "replay create"), (spark_cli.main, "audit")):
        with pytest.raises(SystemExit) as ended:
            run(["help", *name.split()])
        assert ended.value.code == 0
        assert f" {name} [-h]" in capsys.readouterr().out
    with pytest.raises(SystemExit) as unknown:
        main(["help", "srve"])
    assert unknown.value.code == 2
    assert 'Did you mean "serve"?' in capsys.readouterr().err
